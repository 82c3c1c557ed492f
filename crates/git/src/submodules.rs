//! Checks out the submodules of a new worktree.
//!
//! Their paths and addresses come from `.gitmodules`, which the author of the commit wrote. So only paths
//! that are gitlinks of the checked-out commit count, only addresses on the remote's own host are contacted,
//! and the person's credential helpers are not used. A submodule that cannot be fetched is reported and
//! blocks nothing. The same rules apply to submodules of submodules.
//!
//! `git submodule update --init` would record each submodule in the repository's own config, which all
//! worktrees share and a creation must not touch. Each call of git gets the same settings instead.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::settled::{TemporaryFile, temporary_config};
use crate::{GitError, GitLocation, Repository, parse};

/// The maximum depth of nested submodules.
const MAX_SUBMODULE_DEPTH: usize = 8;

/// A submodule that may be fetched.
struct Submodule {
    name: String,
    path: PathBuf,
    url: String,
}

/// Checks out the submodules of a worktree, and returns a sentence for each that failed. Relative addresses
/// are relative to `remote`'s; without one, to the repository itself.
pub async fn initialise_submodules(
    repo: &Repository,
    work_tree: &Path,
    remote: Option<&str>,
) -> Result<Vec<String>, GitError> {
    if work_tree.join(".gitmodules").symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    // With its credentials, if it has some: git needs them, and no other process sees the address.
    let base = match remote {
        Some(remote) => repo.new_command("remote").args(["get-url", "--", remote]).run_to_text().await?,
        None => repo.root.display().to_string(),
    };
    let failed = |error: io::Error| GitError::unreadable_output("config", error.to_string());
    let config = without_credential_helpers(repo).map_err(failed)?;
    let mut update = SubmoduleUpdate { repo, config, remote: base.clone(), problems: Vec::new() };
    let mut levels = vec![(work_tree.to_owned(), PathBuf::new(), base, 0)];
    while let Some((folder, below, base, depth)) = levels.pop() {
        let found = match update.submodules_of(&folder, &below, &base).await {
            Ok(found) => found,
            Err(error) => {
                update.report_problem(&below.join(".gitmodules"), &error.reason_line());
                continue;
            }
        };
        for submodule in update.check_out(&folder, &below, found).await {
            let (folder, below) = (folder.join(&submodule.path), below.join(&submodule.path));
            if folder.join(".gitmodules").symlink_metadata().is_err() {
                continue;
            }
            if depth + 1 < MAX_SUBMODULE_DEPTH {
                levels.push((folder, below, submodule.url, depth + 1));
            } else {
                update.report_problem(&below, "its own submodules lie too deep");
            }
        }
    }
    Ok(update.problems)
}

struct SubmoduleUpdate<'a> {
    repo: &'a Repository,
    config: TemporaryFile,
    /// The address of the repository itself.
    remote: String,
    problems: Vec<String>,
}

impl SubmoduleUpdate<'_> {
    fn report_problem(&mut self, path: &Path, why: &str) {
        self.problems.push(format!("The submodule `{}` was not checked out: {why}.", path.display()));
    }

    /// Returns the submodules of a commit that may be fetched.
    async fn submodules_of(&mut self, folder: &Path, below: &Path, base: &str) -> Result<Vec<Submodule>, GitError> {
        let git = self.repo.git();
        let listed = git.new_command(GitLocation::Dir(folder), "config");
        let listed = listed.args(["--blob", "HEAD:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.(url|path)$"]);
        // Exit code 1: it names none.
        let listed = listed.run_for(&[0, 1]).await?.stdout;
        let text = String::from_utf8_lossy(&listed).into_owned();
        let entries: Vec<(&str, &str, &str)> = text
            .split('\0')
            .filter_map(|entry| entry.split_once('\n'))
            .filter_map(|(key, value)| key.rsplit_once('.').map(|(name, variable)| (name, variable, value)))
            .collect();
        let last = |wanted: &str, variable: &str| {
            entries
                .iter()
                .rev()
                .find(|(name, known, _)| *name == wanted && *known == variable)
                .map(|(.., value)| *value)
        };
        let mut found: Vec<Submodule> = Vec::new();
        for (name, ..) in entries.iter().filter(|(_, variable, _)| *variable == "path") {
            let (Some(path), Some(url)) = (last(name, "path"), last(name, "url")) else { continue };
            if found.iter().any(|known| known.name == *name) {
                continue;
            }
            let Ok(path) = parse::tracked_path(path.as_bytes()) else {
                self.report_problem(Path::new(path), "its path leads out of the worktree");
                continue;
            };
            if !is_gitlink(self.repo, folder, &path).await? {
                continue;
            }
            let url = resolve_url(base, url);
            match refusal_reason(&self.remote, &url) {
                Some(why) => self.report_problem(&below.join(&path), &why),
                None => found.push(Submodule { name: (*name).to_owned(), path, url }),
            }
        }
        Ok(found)
    }

    /// Checks out the submodules that can be fetched: all at once, or, if that fails, one by one.
    /// Returns them.
    async fn check_out(&mut self, folder: &Path, below: &Path, found: Vec<Submodule>) -> Vec<Submodule> {
        if found.is_empty() || self.fetch_submodules(folder, &found, &[]).await.is_ok() {
            return found;
        }
        let mut there = Vec::new();
        for submodule in found {
            // Forced: git takes what the first attempt cloned for checked out, though it has no files.
            match self.fetch_submodules(folder, std::slice::from_ref(&submodule), &["--force"]).await {
                Ok(()) => there.push(submodule),
                Err(error) => self.report_problem(&below.join(&submodule.path), &error.reason_line()),
            }
        }
        there
    }

    async fn fetch_submodules(&self, folder: &Path, submodules: &[Submodule], flags: &[&str]) -> Result<(), GitError> {
        let settings = submodules.iter().flat_map(|Submodule { name, url, .. }| {
            [(format!("{name}.url"), url.clone()), (format!("{name}.active"), "true".to_owned())]
        });
        let update = self.repo.git().new_command(GitLocation::Dir(folder), "submodule").args([
            "--quiet",
            "update",
            "--checkout",
        ]);
        let update = update.with_settings(settings).with_env("GIT_CONFIG_GLOBAL", &self.config.0).args(flags).arg("--");
        update.args(submodules.iter().map(|submodule| &submodule.path)).with_network_access().run().await.map(drop)
    }
}

/// Tells whether a path is a submodule of the checked-out commit.
async fn is_gitlink(repo: &Repository, folder: &Path, path: &Path) -> Result<bool, GitError> {
    let listed = repo.git().new_command(GitLocation::Dir(folder), "ls-tree").args(["-z", "HEAD", "--"]).arg(path);
    Ok(listed.with_env("GIT_LITERAL_PATHSPECS", "1").run().await?.stdout.starts_with(b"160000 commit "))
}

/// Writes a copy of the person's config without the settings that identify the person to a remote.
fn without_credential_helpers(repo: &Repository) -> io::Result<TemporaryFile> {
    let xdg = std::env::var("XDG_CONFIG_HOME").ok().filter(|dir| !dir.is_empty());
    let xdg = xdg.map_or_else(|| "~/.config/git/config".to_owned(), |dir| format!("{dir}/git/config"));
    let included = [xdg, "~/.gitconfig".to_owned()].map(|file| {
        let path = file.replace('\\', "\\\\").replace('"', "\\\"");
        format!("[include]\n\tpath = \"{path}\"\n")
    });
    let forgotten = "[credential]\n\thelper =\n[http]\n\textraHeader =\n[core]\n\thooksPath = /dev/null\n";
    let config = temporary_config(&repo.common_dir)?;
    fs::write(&config.0, included.concat() + forgotten)?;
    Ok(config)
}

/// The target of an address.
#[derive(Debug, PartialEq, Eq)]
enum SubmoduleAddress {
    /// A folder on this machine.
    Local,
    Host {
        scheme: String,
        host: String,
        port: Option<String>,
    },
    /// An address for a remote helper program of git, or one that git does not understand.
    Strange,
}

fn read_address(url: &str) -> SubmoduleAddress {
    let host_of = |scheme: &str, authority: &str| {
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match host.rsplit_once(':') {
            // A colon in brackets is part of the IP address.
            Some((host, port)) if !port.contains(']') => (host, Some(port.to_owned())),
            _ => (host, None),
        };
        let scheme = scheme.to_ascii_lowercase();
        SubmoduleAddress::Host { scheme, host: host.to_ascii_lowercase(), port: port.filter(|port| !port.is_empty()) }
    };
    if url.starts_with('-') || url.contains(['\n', '\0']) {
        return SubmoduleAddress::Strange;
    }
    match url.split_once("://") {
        Some(("file", _)) => SubmoduleAddress::Local,
        Some((scheme @ ("https" | "http" | "ssh" | "git"), rest)) => {
            host_of(scheme, rest.split(['/', '?', '#']).next().unwrap_or_default())
        }
        Some(_) => SubmoduleAddress::Strange,
        None => {
            match (url.split_once(':'), url.find('/')) {
                (Some((host, rest)), slash) if slash.is_none_or(|slash| host.len() < slash) => {
                    if rest.starts_with(':') { SubmoduleAddress::Strange } else { host_of("ssh", host) }
                }
                _ => SubmoduleAddress::Local,
            }
        }
    }
}

/// Returns the reason why an address is refused, if it is: only the host that the repository itself comes
/// from is contacted.
fn refusal_reason(remote: &str, url: &str) -> Option<String> {
    match (read_address(remote), read_address(url)) {
        (SubmoduleAddress::Local, SubmoduleAddress::Local) => None,
        (
            SubmoduleAddress::Host { scheme, host, port },
            SubmoduleAddress::Host { scheme: other_scheme, host: other, port: other_port },
        ) if host == other
            && if scheme == other_scheme { port == other_port } else { port.is_none() && other_port.is_none() }
            && (other_scheme != "http" || scheme == "http") =>
        {
            None
        }
        (_, SubmoduleAddress::Host { host, .. }) => {
            Some(format!("it is on another server than the repository itself ({host})"))
        }
        (_, SubmoduleAddress::Local) => Some("its address is a folder of this machine".to_owned()),
        (_, SubmoduleAddress::Strange) => Some("its address is of a kind that is not followed".to_owned()),
    }
}

/// Resolves an address relative to another, as git reads it in `.gitmodules`.
fn resolve_url(base: &str, url: &str) -> String {
    if !url.starts_with("./") && !url.starts_with("../") {
        return url.to_owned();
    }
    let (mut base, mut rest) = (base.trim_end_matches('/').to_owned(), url);
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("../") {
            rest = after;
            // `host:a/b` goes up to `host:a`, and that to `host:`.
            let cut = base.rfind(['/', ':']).map_or(0, |at| if base.as_bytes()[at] == b':' { at + 1 } else { at });
            base.truncate(cut);
        } else {
            let gap = if base.ends_with(':') { "" } else { "/" };
            return format!("{base}{gap}{}", rest.trim_end_matches('/'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{refusal_reason, resolve_url};

    #[test]
    fn only_the_repositorys_own_host_is_asked() {
        for (remote, url) in [
            ("https://github.com/acme/app.git", "https://GitHub.com/acme/lib.git"),
            ("https://me:token@github.com/acme/app.git", "https://github.com/acme/lib.git"),
            ("git@github.com:acme/app.git", "https://github.com/acme/lib.git"),
            ("https://github.com/acme/app", "git@github.com:acme/lib"),
            ("ssh://git@h:2222/a", "ssh://git@h:2222/b"),
            ("http://127.0.0.1:8000/a", "http://127.0.0.1:8000/b"),
            ("/srv/app", "/srv/lib"),
            ("/srv/app", "file:///srv/lib"),
        ] {
            assert_eq!(refusal_reason(remote, url), None, "{remote} {url}");
        }
        for (remote, url) in [
            ("https://github.com/acme/app.git", "https://evil.example/lib.git"),
            ("https://github.com/acme/app.git", "https://github.com@evil.example/lib.git"),
            ("https://github.com/acme/app.git", "https://github.com.evil.example/lib.git"),
            ("https://github.com/acme/app.git", "https://evil.example?@github.com/"),
            ("https://github.com/acme/app.git", "http://github.com/acme/lib.git"),
            ("https://github.com/acme/app.git", "https://github.com:8443/acme/lib.git"),
            ("https://github.com/acme/app.git", "/home/me/private"),
            ("https://github.com/acme/app.git", "file:///home/me/private"),
            ("https://github.com/acme/app.git", "ext::sh -c touch% /tmp/x"),
            ("https://github.com/acme/app.git", "-oProxyCommand=x"),
            ("https://github.com/acme/app.git", "ftp://github.com/x"),
            ("http://127.0.0.1:8000/a", "http://127.0.0.1:9000/b"),
            ("ssh://git@h:2222/a", "https://h/b"),
            ("/srv/app", "https://h/x"),
        ] {
            assert!(refusal_reason(remote, url).is_some(), "{remote} {url}");
        }
    }

    #[test]
    fn relative_addresses_are_read_as_git_reads_them() {
        for (base, url, whole) in [
            ("https://h/acme/app.git", "../lib.git", "https://h/acme/lib.git"),
            ("https://h/acme/app.git/", "../../other/lib", "https://h/other/lib"),
            ("git@h:acme/app.git", "../lib.git", "git@h:acme/lib.git"),
            ("git@h:app.git", "../lib.git", "git@h:lib.git"),
            ("/srv/app", "./lib", "/srv/app/lib"),
            ("/srv/app", "https://h/x", "https://h/x"),
        ] {
            assert_eq!(resolve_url(base, url), whole);
        }
    }
}
