//! Removes small files and folders in `.git/grove` that one call of git needed and a crash left
//! behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use grove_model::Nonce;

/// The prefixes of their names; a nonce follows.
const LEFTOVER_PREFIXES: [&str; 4] = ["network-", "config-", "scratch-", "index-"];
/// No call of git runs this long.
const MIN_LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// Removes the staging folders of creations that have ended, and returns their names; each folder's name tells
/// its creation.
pub fn sweep_staging(common_dir: &Path, ended: &[Nonce]) -> io::Result<Vec<String>> {
    let mut swept = Vec::new();
    for entry in fs::read_dir(common_dir.join("grove")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let nonce = name.strip_prefix("staging-").and_then(|nonce| nonce.parse::<Nonce>().ok());
        if nonce.is_some_and(|nonce| ended.contains(&nonce)) {
            fs::remove_dir_all(entry.path())?;
            swept.push(name);
        }
    }
    Ok(swept)
}

/// Removes the files and folders that a crash left behind, and returns their paths.
pub fn sweep_leftovers(common_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(common_dir.join("grove")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut swept = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            LEFTOVER_PREFIXES
                .iter()
                .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<Nonce>().is_ok()))
        });
        // If the clock was set back, the age proves nothing.
        let age = entry.metadata()?.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok());
        if !ours || age.is_none_or(|age| age < MIN_LEFTOVER_AGE) {
            continue;
        }
        let path = entry.path();
        // For a folder, the links in it are deleted, not their targets.
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)?
        } else {
            fs::remove_file(&path)?
        }
        swept.push(path);
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_ones_of_ours_go_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (grove, objects) = (dir.path().join("grove"), dir.path().join("objects"));
        fs::create_dir_all(&grove).unwrap();
        fs::create_dir_all(&objects).unwrap();
        fs::write(objects.join("pack"), "precious").unwrap();
        let named = |prefix: &str| grove.join(format!("{prefix}{}", Nonce::new()));
        let (old, young, strange) = (named("network-"), named("network-"), grove.join("network-of-mine"));
        for folder in [&old, &young, &strange] {
            fs::create_dir(folder).unwrap();
            std::os::unix::fs::symlink(&objects, folder.join("objects")).unwrap();
        }
        let past = SystemTime::now() - 2 * MIN_LEFTOVER_AGE;
        for folder in [&old, &strange] {
            fs::File::open(folder).unwrap().set_modified(past).unwrap();
        }
        assert_eq!(sweep_leftovers(dir.path()).unwrap(), std::slice::from_ref(&old));
        assert!(!old.exists() && young.exists() && strange.exists());
        assert_eq!(fs::read_to_string(objects.join("pack")).unwrap(), "precious");
        assert_eq!(sweep_leftovers(&dir.path().join("nowhere")).unwrap(), Vec::<PathBuf>::new());
    }
}
