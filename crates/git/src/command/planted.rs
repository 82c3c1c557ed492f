//! Blocks the programs that a repository's own config names.
//!
//! An agent may have written that config. Git would run a filter, a merge driver or a signer that is named
//! there, with everything that our git can reach. Programs that a person configured for all repositories
//! (git-lfs, say) still run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::{Git, GitError, GitLocation};

/// The programs that a call must not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockedPrograms {
    All,
    /// Merge drivers alone: the call writes files, which need their filters.
    MergeDrivers,
}

/// Returns the settings for one call that disable the programs that the repository's own config
/// names.
pub(crate) async fn disarm_programs(
    git: &Git,
    place: GitLocation<'_>,
    programs: BlockedPrograms,
) -> Result<Vec<(String, String)>, GitError> {
    let (common_dir, git_dir) = match place {
        GitLocation::Worktree { git_dir, common_dir, .. } => (common_dir, git_dir),
        GitLocation::Repository(common_dir) => (common_dir, common_dir),
        // A path that a person gave, or a worktree that no agent and no person has worked in yet.
        GitLocation::Dir(_) => return Ok(Vec::new()),
    };
    let configs = [common_dir.join("config"), git_dir.join("config.worktree")];
    let mut named = false;
    for config in &configs {
        named |= git.configs.may_name_programs(config)?;
    }
    if !named {
        return Ok(Vec::new());
    }
    let list = git.new_command(place, "config").args(["--list", "--show-scope", "--includes", "-z"]);
    let listed = Box::pin(list.run()).await?.stdout;
    Ok(settings_against(&listed, programs))
}

/// Results for config files, so that an unchanged file is not read for every call.
#[derive(Debug, Default)]
pub(crate) struct ConfigFiles {
    seen: Mutex<HashMap<PathBuf, (FileStamp, bool)>>,
}

/// A stamp that changes with every write of a file. Unlike the modification time, the change time cannot be
/// set by hand.
type FileStamp = (u64, u64, i64, i64);

impl ConfigFiles {
    /// Tells whether a config file has a section that can name a program, or includes another file.
    fn may_name_programs(&self, config: &Path) -> Result<bool, GitError> {
        let unreadable =
            |error: io::Error| GitError::unreadable_output("config", format!("{}: {error}", config.display()));
        let stamp = match config.symlink_metadata() {
            Ok(meta) => (meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(unreadable(error)),
        };
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, named)) = seen().get(config).filter(|(known, _)| *known == stamp) {
            return Ok(*named);
        }
        let text = read_plain(config, MAX_SMALL_FILE_BYTES).map_err(unreadable)?.to_ascii_lowercase();
        let sections: [&[u8]; 3] = [b"[filter", b"[merge", b"[include"];
        let named = sections.iter().any(|section| text.windows(section.len()).any(|window| window == *section));
        // Only for a file that has not changed for a while: two writes in one moment have the same stamp.
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
        if age > stamp.2 + 2 {
            seen().insert(config.to_owned(), (stamp, named));
        }
        Ok(named)
    }
}

/// The commands that git-lfs writes when it is installed for one repository.
const LFS_FILTER_COMMANDS: [&str; 3] = ["git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process"];

/// Parses `<scope> NUL <key> LF <value> NUL…`.
fn settings_against(listed: &[u8], programs: BlockedPrograms) -> Vec<(String, String)> {
    let mut fields = listed.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let (mut own, mut persons) = (BTreeSet::new(), BTreeMap::new());
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let (key, value) = entry.split_once('\n').unwrap_or((&entry, ""));
        match &*scope {
            "local" | "worktree" if !LFS_FILTER_COMMANDS.contains(&value) => drop(own.insert(key.to_owned())),
            "global" | "system" => drop(persons.insert(key.to_owned(), value.to_owned())),
            _ => {}
        }
    }
    let mut settings = BTreeMap::new();
    for key in own {
        let (Some((section, _)), Some((name, variable))) = (key.split_once('.'), key.rsplit_once('.')) else {
            continue;
        };
        let persons_or = |key: &str, otherwise: &str| persons.get(key).cloned().unwrap_or_else(|| otherwise.to_owned());
        match (section, variable) {
            ("filter", "clean" | "smudge" | "process") if programs == BlockedPrograms::All => {
                let value = persons_or(&key, "");
                if value.is_empty() {
                    // Without this setting git would fail on the file.
                    settings.insert(format!("{name}.required"), persons_or(&format!("{name}.required"), "false"));
                }
                settings.insert(key, value);
            }
            // A driver that fails is a conflict, which a person resolves.
            ("merge", "driver") => drop(settings.insert(key.clone(), persons_or(&key, "false"))),
            _ => {}
        }
    }
    settings.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_for_entries(entries: &[(&str, &str)], programs: BlockedPrograms) -> Vec<(String, String)> {
        let listed: String = entries.iter().map(|(scope, entry)| format!("{scope}\0{entry}\0")).collect();
        settings_against(listed.as_bytes(), programs)
    }

    #[test]
    fn only_what_the_repository_itself_names_is_taken_away() {
        let entries = [
            ("global", "filter.lfs.clean\ngit-lfs clean -- %f"),
            ("global", "filter.lfs.required\ntrue"),
            ("local", "filter.lfs.clean\nevil"),
            ("local", "filter.a=b.c.smudge\nevil"),
            ("worktree", "filter.x.process\nevil"),
            ("local", "filter.local-lfs.process\ngit-lfs filter-process"),
            ("local", "merge.ours.driver\nevil"),
            ("local", "merge.conflictstyle\ndiff3"),
            ("local", "core.bare"),
        ];
        let expected = [
            ("filter.a=b.c.required", "false"),
            ("filter.a=b.c.smudge", ""),
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.x.process", ""),
            ("filter.x.required", "false"),
            ("merge.ours.driver", "false"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(settings_for_entries(&entries, BlockedPrograms::All), expected);
        assert_eq!(settings_for_entries(&entries, BlockedPrograms::MergeDrivers), expected[5..]);
    }
}
