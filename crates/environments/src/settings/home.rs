//! GROVE_HOME: the folder for everything that is not a repository.

use std::path::{Path, PathBuf};

/// Returns `GROVE_HOME`, `ARCHON_HOME`, `/.grove` in a container, or `~/.grove`. `None`: there is no home.
pub fn grove_home(
    variable: impl Fn(&str) -> Option<String>,
    exists: impl Fn(&Path) -> bool,
    cwd: &Path,
) -> Option<PathBuf> {
    let user_home = variable("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let given =
        ["GROVE_HOME", "ARCHON_HOME"].into_iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    if let Some(given) = given {
        return Some(cwd.join(expand_home(&given, user_home.as_deref())));
    }
    let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| exists(Path::new(mark)));
    if marked || variable("GROVE_CONTAINER").as_deref() == Some("1") {
        return Some(PathBuf::from("/.grove"));
    }
    user_home.map(|home| home.join(".grove"))
}

/// Replaces `~` and `~/…` with the user's home.
pub(super) fn expand_home(path: &str, user_home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), user_home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_home(variables: &[(&str, &str)], files: &[&str]) -> Option<String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        grove_home(variable, exists, Path::new("/cwd")).map(|home| home.display().to_string())
    }

    #[test]
    fn the_home_is_found_in_order() {
        let user = ("HOME", "/home/me");
        assert_eq!(find_home(&[user], &[]).as_deref(), Some("/home/me/.grove"));
        assert_eq!(find_home(&[user], &["/.dockerenv"]).as_deref(), Some("/.grove"));
        assert_eq!(find_home(&[user], &["/run/.containerenv"]).as_deref(), Some("/.grove"));
        assert_eq!(find_home(&[user, ("GROVE_CONTAINER", "1")], &[]).as_deref(), Some("/.grove"));
        assert_eq!(find_home(&[user, ("ARCHON_HOME", "/a")], &["/.dockerenv"]).as_deref(), Some("/a"));
        assert_eq!(
            find_home(&[user, ("ARCHON_HOME", "/a"), ("GROVE_HOME", "~/g")], &[]).as_deref(),
            Some("/home/me/g")
        );
        assert_eq!(find_home(&[("GROVE_HOME", "rel")], &[]).as_deref(), Some("/cwd/rel"));
        assert_eq!(find_home(&[("GROVE_HOME", "")], &[]), None);
    }
}
