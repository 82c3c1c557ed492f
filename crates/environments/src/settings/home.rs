//! GROVE_HOME: the folder for everything that is not a repository.

use std::path::{Path, PathBuf};

/// GROVE_HOME in a container, unless it cannot be made there.
const CONTAINER_HOME: &str = "/.grove";

/// The folder that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroveHome {
    pub path: PathBuf,
    /// This is a container, but its own folder neither exists nor can be made.
    pub instead_of_container_home: bool,
}

/// The questions about the disk that decide where the home is.
pub struct HomeProbe<'a> {
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// Tells whether this user may make something in a folder.
    pub is_writable: &'a dyn Fn(&Path) -> bool,
}

/// Returns `GROVE_HOME`, `ARCHON_HOME`, `/.grove` in a container where that exists or can be made, or
/// `~/.grove`. `None`: there is no home.
pub fn grove_home(variable: impl Fn(&str) -> Option<String>, probe: &HomeProbe<'_>, cwd: &Path) -> Option<GroveHome> {
    let user_home = variable("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let given =
        ["GROVE_HOME", "ARCHON_HOME"].into_iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    if let Some(given) = given {
        let path = cwd.join(expand_home(&given, user_home.as_deref()));
        return Some(GroveHome { path, instead_of_container_home: false });
    }
    let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| (probe.exists)(Path::new(mark)));
    let in_container = marked || variable("GROVE_CONTAINER").as_deref() == Some("1");
    let container_home = Path::new(CONTAINER_HOME);
    let is_usable = || match (probe.exists)(container_home) {
        true => (probe.is_writable)(container_home),
        false => (probe.is_writable)(Path::new("/")),
    };
    match user_home {
        Some(home) if !in_container || !is_usable() => {
            Some(GroveHome { path: home.join(".grove"), instead_of_container_home: in_container })
        }
        _ if in_container => Some(GroveHome { path: container_home.to_owned(), instead_of_container_home: false }),
        _ => None,
    }
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

    fn find_home(variables: &[(&str, &str)], files: &[&str], writable: &[&str]) -> Option<String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let one_of = |paths: &[&str], path: &Path| paths.iter().any(|known| Path::new(known) == path);
        let (exists, is_writable) = (|path: &Path| one_of(files, path), |path: &Path| one_of(writable, path));
        let probe = HomeProbe { exists: &exists, is_writable: &is_writable };
        let note = |home: &GroveHome| if home.instead_of_container_home { " instead" } else { "" };
        grove_home(variable, &probe, Path::new("/cwd")).map(|home| format!("{}{}", home.path.display(), note(&home)))
    }

    #[test]
    fn the_home_is_found_in_order() {
        let (user, container) = (("HOME", "/home/me"), ("GROVE_CONTAINER", "1"));
        let archon = ("ARCHON_HOME", "/a");
        type HomeCase<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str], Option<&'a str>);
        let cases: [HomeCase<'_>; 11] = [
            (&[user], &[], &["/"], Some("/home/me/.grove")),
            (&[user], &["/.dockerenv"], &["/"], Some("/.grove")),
            (&[user], &["/run/.containerenv"], &["/"], Some("/.grove")),
            (&[user, container], &[], &["/"], Some("/.grove")),
            (&[user, container], &["/.grove"], &["/.grove"], Some("/.grove")),
            (&[user, container], &["/.grove"], &["/"], Some("/home/me/.grove instead")),
            (&[user], &["/.dockerenv"], &[], Some("/home/me/.grove instead")),
            (&[container], &[], &[], Some("/.grove")),
            (&[user, archon], &["/.dockerenv"], &["/"], Some("/a")),
            (&[user, archon, ("GROVE_HOME", "~/g")], &["/.dockerenv"], &[], Some("/home/me/g")),
            (&[("GROVE_HOME", "rel")], &[], &[], Some("/cwd/rel")),
        ];
        for (variables, files, writable, found) in cases {
            assert_eq!(find_home(variables, files, writable).as_deref(), found, "{variables:?} {files:?} {writable:?}");
        }
        assert_eq!(find_home(&[("GROVE_HOME", "")], &[], &[]), None);
    }
}
