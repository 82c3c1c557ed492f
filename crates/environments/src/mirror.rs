//! The facts of an environment as a file, for tools and people that look at files.
//!
//! The file is `<repo>/.grove/worktrees/<folder>/worktree.json`, with the keys that Automaker writes. The
//! store is the truth; these files are a mirror, written atomically and ignored through `info/exclude`.
//! Grovekeeper reads them back only to recognise worktrees that other tools made.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use grove_model::{Codebase, Environment, InitStatus, Nonce, PullRequestInfo};
use serde::{Deserialize, Serialize};

/// The folder of the mirrors, below the repository.
pub(crate) const MIRROR_FOLDER: &str = ".grove/worktrees";
const AUTOMAKER_FOLDER: &str = ".automaker/worktrees";
const MIRROR_FILE_NAME: &str = "worktree.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MirrorRecord {
    pub branch: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr: Option<PullRequestInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_script_ran: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_script_status: Option<InitStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_script_error: Option<String>,
}

impl From<&Environment> for MirrorRecord {
    fn from(environment: &Environment) -> Self {
        let init = environment.metadata.init_script.clone();
        Self {
            branch: environment.branch.to_string(),
            created_at: environment.created_at.to_string(),
            pr: environment.metadata.pr.clone().map(|pr| PullRequestInfo { head: None, updated_at: None, ..pr }),
            init_script_ran: init.as_ref().map(|init| init.ran),
            init_script_status: init.as_ref().and_then(|init| init.status),
            init_script_error: init.and_then(|init| init.error),
        }
    }
}

/// Writes the file: a temporary one, synced, then renamed. The path is opened beneath the repository, so that
/// no symbolic link on the way can lead out of it.
pub(crate) fn write_mirror(codebase: &Codebase, environment: &Environment) -> io::Result<()> {
    let repo = Dir::open_ambient_dir(&codebase.default_cwd, ambient_authority())?;
    if codebase.default_cwd != codebase.git_common_dir {
        exclude_mirror_folder(&codebase.git_common_dir)?;
    }
    let folder = Path::new(MIRROR_FOLDER).join(environment.path.file_name().unwrap_or_default());
    repo.create_dir_all(&folder)?;
    let dir = repo.open_dir(&folder)?;
    // A unique name: another process may be writing the same facts at this moment.
    let temporary = format!(".{MIRROR_FILE_NAME}.{}", Nonce::new());
    let mut file = dir.create(&temporary)?;
    serde_json::to_writer_pretty(&mut file, &MirrorRecord::from(environment))?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    dir.rename(&temporary, &dir, MIRROR_FILE_NAME)
}

/// Deletes the mirror of an environment that no longer exists, unless another environment has its folder.
pub(crate) fn delete_mirror(codebase: &Codebase, environment: &Environment) -> io::Result<()> {
    let folder = Path::new(MIRROR_FOLDER).join(environment.path.file_name().unwrap_or_default());
    let repo = Dir::open_ambient_dir(&codebase.default_cwd, ambient_authority())?;
    let text = match repo.read(folder.join(MIRROR_FILE_NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let ours =
        serde_json::from_slice::<MirrorRecord>(&text).is_ok_and(|mirrored| mirrored == MirrorRecord::from(environment));
    if !ours {
        return Ok(());
    }
    repo.remove_file(folder.join(MIRROR_FILE_NAME)).and_then(|()| repo.remove_dir(&folder))
}

pub(crate) fn is_there(codebase: &Codebase, environment: &Environment) -> bool {
    let folder = codebase.default_cwd.join(MIRROR_FOLDER).join(environment.path.file_name().unwrap_or_default());
    folder.join(MIRROR_FILE_NAME).is_file()
}

/// Adds one line to `info/exclude`, once. Only our mirrors are ignored; a `.grove/config.toml` is not.
fn exclude_mirror_folder(common_dir: &Path) -> io::Result<()> {
    let line = format!("{MIRROR_FOLDER}/");
    let path = common_dir.join("info/exclude");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if text.lines().any(|known| known == line) {
        return Ok(());
    }
    fs::create_dir_all(common_dir.join("info"))?;
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // Appended in one write: another process may be adding a line at the same time.
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{gap}{line}\n").as_bytes())
}

/// The mirror files of a repository.
#[derive(Debug, Default)]
pub struct MirrorFiles {
    pub read: Vec<(PathBuf, MirrorRecord)>,
    /// Files that could not be read, each with the reason. They do not hide the others.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl MirrorFiles {
    /// Reads all mirror files in a repository, ours and Automaker's.
    pub fn read_all(repo: &Path) -> Self {
        let mut mirrors = Self::default();
        for folder in [MIRROR_FOLDER, AUTOMAKER_FOLDER] {
            mirrors.collect_from_folder(&repo.join(folder));
        }
        mirrors
    }

    fn collect_from_folder(&mut self, folder: &Path) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable.push((folder.to_owned(), error.to_string())),
        };
        for entry in entries {
            let file = match entry {
                Ok(entry) => entry.path().join(MIRROR_FILE_NAME),
                Err(error) => {
                    self.unreadable.push((folder.to_owned(), error.to_string()));
                    continue;
                }
            };
            let bytes = fs::read(&file).map_err(|error| error.to_string());
            match bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string())) {
                Ok(mirrored) => self.read.push((file, mirrored)),
                Err(why) => self.unreadable.push((file, why)),
            }
        }
        self.read.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_test_mirror(repo: &Path, folder: &str, name: &str, text: &str) {
        let dir = repo.join(folder).join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(MIRROR_FILE_NAME), text).unwrap();
    }

    #[test]
    fn automakers_files_are_read_and_a_bad_one_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let pr = r#"{"number":7,"url":"u","title":"t","state":"open","createdAt":"2026-01-01"}"#;
        let full = format!(
            r#"{{"branch":"feature/a","createdAt":"2026-01-01T00:00:00Z","pr":{pr},"initScriptRan":true,"initScriptStatus":"failed","initScriptError":"boom","new":1}}"#
        );
        write_test_mirror(dir.path(), AUTOMAKER_FOLDER, "feature-a", &full);
        write_test_mirror(dir.path(), AUTOMAKER_FOLDER, "broken", "{\"branch\":");
        write_test_mirror(
            dir.path(),
            AUTOMAKER_FOLDER,
            "strange",
            r#"{"branch":"x","createdAt":"y","initScriptStatus":"exploded"}"#,
        );
        write_test_mirror(dir.path(), MIRROR_FOLDER, "ours", r#"{"branch":"ours","createdAt":"2026-01-01"}"#);
        fs::create_dir_all(dir.path().join(MIRROR_FOLDER).join("empty")).unwrap();
        let mirrors = MirrorFiles::read_all(dir.path());
        let branches: Vec<&str> = mirrors.read.iter().map(|(_, mirrored)| mirrored.branch.as_str()).collect();
        assert_eq!(branches, ["feature/a", "ours"]);
        assert_eq!(mirrors.unreadable.len(), 3, "{:?}", mirrors.unreadable);
        let automakers = &mirrors.read[0].1;
        assert_eq!(automakers.pr.as_ref().map(|pr| pr.number), Some(7));
        assert_eq!(automakers.init_script_status, Some(InitStatus::Failed));
        assert_eq!(MirrorFiles::read_all(&dir.path().join("nothing")).read, []);
    }

    #[test]
    fn the_exclude_line_is_added_once_and_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("info")).unwrap();
        fs::write(dir.path().join("info/exclude"), "mine").unwrap();
        exclude_mirror_folder(dir.path()).unwrap();
        exclude_mirror_folder(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("info/exclude")).unwrap(), "mine\n.grove/worktrees/\n");
    }
}
