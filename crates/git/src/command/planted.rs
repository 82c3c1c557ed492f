//! Programs that a repository's own config names.
//!
//! An agent may have written that config. Git would run a filter, a merge driver or a signer that is
//! named there, with everything that our git can reach. What a person configured for all repositories
//! (git-lfs, say) stays as it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::durable::{SMALL, read_plain};
use crate::{Git, GitError, Place};

/// Which programs a call must not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Programs {
    All,
    /// Merge drivers alone: the call writes files, which filters belong to.
    MergeDrivers,
}

/// The settings for one call that take away what the repository's own config names.
pub(crate) async fn disarm(git: &Git, place: Place<'_>, programs: Programs) -> Result<Vec<(String, String)>, GitError> {
    let (common_dir, git_dir) = match place {
        Place::Worktree { git_dir, common_dir, .. } => (common_dir, git_dir),
        Place::Repository(common_dir) => (common_dir, common_dir),
        // A path that a person gave, or a worktree that nobody has worked in yet.
        Place::Dir(_) => return Ok(Vec::new()),
    };
    let configs = [common_dir.join("config"), git_dir.join("config.worktree")];
    let mut named = false;
    for config in &configs {
        named |= git.configs.may_name_programs(config)?;
    }
    if !named {
        return Ok(Vec::new());
    }
    let list = git.command(place, "config").args(["--list", "--show-scope", "--includes", "-z"]);
    let listed = Box::pin(list.run()).await?.stdout;
    Ok(settings_against(&listed, programs))
}

/// What is known of config files, so that one which has not changed is not read for every call.
#[derive(Debug, Default)]
pub(crate) struct ConfigFiles {
    seen: Mutex<HashMap<PathBuf, (FileStamp, bool)>>,
}

/// What changes with every write of a file. Unlike the time of its content, the time of its last change
/// cannot be set by hand.
type FileStamp = (u64, u64, i64, i64);

impl ConfigFiles {
    /// Whether a config file has a section that can name a program, or includes another file.
    fn may_name_programs(&self, config: &Path) -> Result<bool, GitError> {
        let unreadable = |error: io::Error| GitError::unreadable("config", format!("{}: {error}", config.display()));
        let stamp = match config.symlink_metadata() {
            Ok(meta) => (meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(unreadable(error)),
        };
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, named)) = seen().get(config).filter(|(known, _)| *known == stamp) {
            return Ok(*named);
        }
        let text = read_plain(config, SMALL).map_err(unreadable)?.to_ascii_lowercase();
        let sections: [&[u8]; 3] = [b"[filter", b"[merge", b"[include"];
        let named = sections.iter().any(|section| text.windows(section.len()).any(|window| window == *section));
        // Only of a file that has been as it is for a while: two writes in one moment have one stamp.
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
        if age > stamp.2 + 2 {
            seen().insert(config.to_owned(), (stamp, named));
        }
        Ok(named)
    }
}

/// What git-lfs writes when it is installed for one repository.
const LFS: [&str; 3] = ["git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process"];

/// From `<scope> NUL <key> LF <value> NUL…`.
fn settings_against(listed: &[u8], programs: Programs) -> Vec<(String, String)> {
    let mut fields = listed.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let (mut own, mut persons) = (BTreeSet::new(), BTreeMap::new());
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let (key, value) = entry.split_once('\n').unwrap_or((&entry, ""));
        match &*scope {
            "local" | "worktree" if !LFS.contains(&value) => drop(own.insert(key.to_owned())),
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
            ("filter", "clean" | "smudge" | "process") if programs == Programs::All => {
                let value = persons_or(&key, "");
                if value.is_empty() {
                    // Without it git would give up on the file.
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

    fn against(entries: &[(&str, &str)], programs: Programs) -> Vec<(String, String)> {
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
        assert_eq!(against(&entries, Programs::All), expected);
        assert_eq!(against(&entries, Programs::MergeDrivers), expected[5..]);
    }
}
