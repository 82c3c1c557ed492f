//! The git directory of ours from which a remote is talked to.
//!
//! Fetch, push and the like run with a token, and a repository's own config can send it elsewhere: a
//! proxy, another server, a program in the place of ssh. An agent may write that config at any moment,
//! so a look at it before the call proves nothing. Each call runs from a directory of ours instead,
//! which is gone afterwards: its config says the address and nothing else that was not written here,
//! and its objects and refs are the repository's. The person's own config (`~/.gitconfig`) holds.

use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use grove_model::Nonce;

use crate::command::credentials::Shown;
use crate::command::{Invocation, Output};
use crate::durable::{SMALL, read_plain};
use crate::lock::grove_dir;
use crate::{GitError, Place, Repository};

/// The way that commits go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Fetch,
    Push,
}

/// How long a remote is waited for before the caller is told.
const WAIT_NOTICE_AFTER: Duration = Duration::from_secs(3);

/// A remote that can be talked to for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RemoteAccess<'a> {
    repo: &'a Repository,
    directory: NetworkDir,
    shown: Option<Shown>,
    name: String,
}

impl Repository {
    /// Prepares to talk to a remote, with what it wants to be shown.
    pub(crate) async fn access_remote(&self, remote: &str, way: Way) -> Result<RemoteAccess<'_>, GitError> {
        let asked = self.command("remote").args(["get-url", "--all"]).args((way == Way::Push).then_some("--push"));
        let urls = asked.args(["--", remote]).text().await?;
        let urls: Vec<String> = urls.lines().map(|url| self.absolute_address(url)).collect();
        let Some(url) = urls.first() else { return Err(GitError::unreadable("remote", "it has no address")) };
        let shown = self.git().shown_at(url).await?;
        if shown.is_some() && urls.len() > 1 {
            return Err(GitError::Astray { key: format!("remote.{remote}.url") });
        }
        // A remote is fetched from its first address, and pushed to at all of them.
        let used = if way == Way::Push { &urls[..] } else { &urls[..1] };
        let kept = self.kept_settings(remote).await?;
        let failed =
            |error: io::Error| GitError::unreadable("remote", format!("its directory cannot be made: {error}"));
        let directory = NetworkDir::create(self, remote, used, &kept).map_err(failed)?;
        Ok(RemoteAccess { repo: self, directory, shown, name: remote.to_owned() })
    }

    /// A path is relative to the checkout, wherever git runs.
    fn absolute_address(&self, url: &str) -> String {
        let is_path = !is_url(url) && !Path::new(url).is_absolute();
        if is_path { self.root.join(url).display().to_string() } else { url.to_owned() }
    }

    /// Settings of the repository that say how its objects are kept, and name neither a program nor a
    /// way.
    async fn kept_settings(&self, remote: &str) -> Result<Vec<(String, String)>, GitError> {
        let config = self.common_dir.join("config");
        let text = read_plain(&config, SMALL)
            .map_err(|error| GitError::unreadable("config", format!("{}: {error}", config.display())))?;
        let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
        if !["sharedrepository", "objectformat", "refstorage", "partialclone", "promisor"]
            .iter()
            .any(|w| text.contains(w))
        {
            return Ok(Vec::new());
        }
        let listed = self.command("config").args(["--local", "--list", "-z"]).run().await?.stdout;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let of_remote = format!("remote.{remote}.");
        let is_kept = |key: &str| {
            matches!(
                key,
                "core.sharedrepository"
                    | "extensions.objectformat"
                    | "extensions.refstorage"
                    | "extensions.partialclone"
            ) || matches!(key.strip_prefix(&of_remote), Some("promisor" | "partialclonefilter"))
        };
        let entries = listed.split('\0').filter_map(|entry| entry.split_once('\n'));
        Ok(entries.filter(|(key, _)| is_kept(key)).map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }
}

impl RemoteAccess<'_> {
    /// Runs a call of [`Self::command`]. A caller that wants to know is told when the remote takes long.
    pub(crate) async fn run(&self, call: Invocation<'_>) -> Result<Output, GitError> {
        let call = call.run();
        let Some(on_wait) = &self.repo.remote_options.on_wait else { return call.await };
        tokio::pin!(call);
        match tokio::time::timeout(WAIT_NOTICE_AFTER, &mut call).await {
            Ok(done) => done,
            Err(_) => {
                on_wait.tell(&self.name);
                call.await
            }
        }
    }

    /// A call that names the remote and what follows it.
    pub(crate) fn command(&self, subcommand: &'static str, flags: &[&str], rest: &[String]) -> Invocation<'_> {
        let program = match subcommand {
            "push" => "--receive-pack=git-receive-pack",
            _ => "--upload-pack=git-upload-pack",
        };
        let call = self.repo.git().command(Place::Repository(&self.directory.0), subcommand);
        let call = call.arg(program).args(flags).args(["--end-of-options", &self.name]).args(rest);
        call.network().showing(self.shown.clone())
    }
}

/// The directory; it goes with this value. What a crash leaves is links and a few lines.
#[derive(Debug)]
struct NetworkDir(PathBuf);

impl NetworkDir {
    fn create(repo: &Repository, remote: &str, urls: &[String], kept: &[(String, String)]) -> io::Result<Self> {
        let path = grove_dir(&repo.common_dir)?.join(format!("network-{}", Nonce::new()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let directory = Self(path);
        let path = &directory.0;
        fs::write(path.join("HEAD"), "ref: refs/heads/grove-network\n")?;
        let mut entries = vec![
            ("core.repositoryformatversion".to_owned(), "1".to_owned()),
            ("core.bare".to_owned(), "true".to_owned()),
            // Also in a bare repository: the reflog tells who made a ref.
            ("core.logallrefupdates".to_owned(), "true".to_owned()),
        ];
        entries.extend_from_slice(kept);
        entries.extend(urls.iter().map(|url| (format!("remote.{remote}.url"), url.clone())));
        entries.push((format!("remote.{remote}.fetch"), format!("+refs/heads/*:refs/remotes/{remote}/*")));
        let text: String = entries.iter().map(|(key, value)| config_entry(key, value)).collect();
        fs::write(path.join("config"), text)?;
        for name in ["objects", "refs", "logs", "packed-refs", "shallow", "reftable"] {
            let real = repo.common_dir.join(name);
            // A bare repository has none yet, and git makes no folder at the end of a link.
            if name == "logs" {
                fs::create_dir_all(&real)?;
            }
            // Git makes the first four where they are missing; the other two change what a repository is.
            if !matches!(name, "shallow" | "reftable") || real.symlink_metadata().is_ok() {
                symlink(real, path.join(name))?;
            }
        }
        Ok(directory)
    }
}

impl Drop for NetworkDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::debug!("{} could not be taken away: {error}", self.0.display());
        }
    }
}

/// One setting as a config file has it, whatever its name and value hold.
fn config_entry(key: &str, value: &str) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    match rest.rsplit_once('.') {
        Some((name, variable)) => {
            format!("[{section} \"{}\"]\n\t{variable} = \"{}\"\n", escaped(name), escaped(value))
        }
        None => format!("[{section}]\n\t{rest} = \"{}\"\n", escaped(value)),
    }
}

/// Whether a text is an address to clone from, not a path on this machine.
pub fn is_url(text: &str) -> bool {
    if text.contains("://") {
        return true;
    }
    // `user@host:path`: a colon before the first slash, and not a path that is there.
    match (text.find(':'), text.find('/')) {
        (Some(colon), slash) => colon > 1 && slash.is_none_or(|slash| colon < slash) && !Path::new(text).exists(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::config_entry;

    #[test]
    fn a_setting_holds_anything() {
        assert_eq!(config_entry("core.bare", "true"), "[core]\n\tbare = \"true\"\n");
        let odd = config_entry("remote.a.\"b\\.url", "https://h/#;\"\\\n[core]");
        assert_eq!(odd, "[remote \"a.\\\"b\\\\\"]\n\turl = \"https://h/#;\\\"\\\\\\n[core]\"\n");
    }
}
