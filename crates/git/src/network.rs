//! The temporary git directory from which calls connect to a remote.
//!
//! Fetch, push and the like run with a token, and a repository's own config can send it elsewhere: a proxy,
//! another server, a program in place of ssh. An agent may write that config at any moment, so a check before
//! the call proves nothing. Each call runs from a directory of ours instead, which is removed afterwards: its
//! config holds the address and only settings that were written here, and its objects and refs are the
//! repository's. The person's own config (`~/.gitconfig`) applies.

use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use grove_model::Nonce;

use crate::command::credentials::RemoteCredential;
use crate::command::{GitInvocation, GitOutput};
use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::lock::grove_dir;
use crate::{GitError, GitLocation, Repository};

/// The direction in which commits are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferDirection {
    Fetch,
    Push,
}

/// The time after which the caller is notified that a remote is slow.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(3);

/// Access to a remote for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RemoteAccess<'a> {
    repo: &'a Repository,
    directory: NetworkDir,
    shown: Option<RemoteCredential>,
    name: String,
}

impl Repository {
    /// Prepares access to a remote, with its credential.
    pub(crate) async fn access_remote(
        &self,
        remote: &str,
        way: TransferDirection,
    ) -> Result<RemoteAccess<'_>, GitError> {
        let asked = self
            .new_command("remote")
            .args(["get-url", "--all"])
            .args((way == TransferDirection::Push).then_some("--push"));
        let urls = asked.args(["--", remote]).run_to_text().await?;
        let urls: Vec<String> = urls.lines().map(|url| self.absolute_address(url)).collect();
        let Some(url) = urls.first() else { return Err(GitError::unreadable_output("remote", "it has no address")) };
        let shown = self.git().shown_at(url).await?;
        if shown.is_some() && urls.len() > 1 {
            return Err(GitError::Astray { key: format!("remote.{remote}.url") });
        }
        // A remote is fetched from its first address, and pushed to all of them.
        let used = if way == TransferDirection::Push { &urls[..] } else { &urls[..1] };
        let kept = self.kept_settings(remote).await?;
        let failed =
            |error: io::Error| GitError::unreadable_output("remote", format!("its directory cannot be made: {error}"));
        let directory = NetworkDir::create_dir(self, remote, used, &kept).map_err(failed)?;
        Ok(RemoteAccess { repo: self, directory, shown, name: remote.to_owned() })
    }

    /// Makes a path absolute: it is relative to the checkout, wherever git runs.
    fn absolute_address(&self, url: &str) -> String {
        let is_path = !is_url(url) && !Path::new(url).is_absolute();
        if is_path { self.root.join(url).display().to_string() } else { url.to_owned() }
    }

    /// Returns the settings of the repository that say how its objects are stored, and name neither a program
    /// nor an address.
    async fn kept_settings(&self, remote: &str) -> Result<Vec<(String, String)>, GitError> {
        let config = self.common_dir.join("config");
        let text = read_plain(&config, MAX_SMALL_FILE_BYTES)
            .map_err(|error| GitError::unreadable_output("config", format!("{}: {error}", config.display())))?;
        let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
        if !["sharedrepository", "objectformat", "refstorage", "partialclone", "promisor"]
            .iter()
            .any(|w| text.contains(w))
        {
            return Ok(Vec::new());
        }
        let listed = self.new_command("config").args(["--local", "--list", "-z"]).run().await?.stdout;
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
    /// Runs a call of [`Self::remote_command`]. Notifies a caller that registered for it when the remote is
    /// slow.
    pub(crate) async fn run_remote_command(&self, call: GitInvocation<'_>) -> Result<GitOutput, GitError> {
        let call = call.run();
        let Some(progress) = self.repo.git().progress_callback() else { return call.await };
        tokio::pin!(call);
        match tokio::time::timeout(WAIT_NOTICE_DELAY, &mut call).await {
            Ok(done) => done,
            Err(_) => {
                progress.report_wait(&self.name);
                call.await
            }
        }
    }

    /// Creates a call with the remote's name followed by `rest`.
    pub(crate) fn remote_command(
        &self,
        subcommand: &'static str,
        flags: &[&str],
        rest: &[String],
    ) -> GitInvocation<'_> {
        let program = match subcommand {
            "push" => "--receive-pack=git-receive-pack",
            _ => "--upload-pack=git-upload-pack",
        };
        let call = self.repo.git().new_command(GitLocation::Repository(&self.directory.0), subcommand);
        let call = call.arg(program).args(flags).args(["--end-of-options", &self.name]).args(rest);
        call.with_network_access().with_credential(self.shown.clone())
    }
}

/// The temporary directory; dropping the value deletes it. A crash leaves only links and a few
/// lines.
#[derive(Debug)]
struct NetworkDir(PathBuf);

impl NetworkDir {
    fn create_dir(repo: &Repository, remote: &str, urls: &[String], kept: &[(String, String)]) -> io::Result<Self> {
        let path = grove_dir(&repo.common_dir)?.join(format!("network-{}", Nonce::new()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let directory = Self(path);
        let path = &directory.0;
        fs::write(path.join("HEAD"), "ref: refs/heads/grove-network\n")?;
        let mut entries = vec![
            ("core.repositoryformatversion".to_owned(), "1".to_owned()),
            ("core.bare".to_owned(), "true".to_owned()),
            // Also in a bare repository: the reflog tells which creation made a ref.
            ("core.logallrefupdates".to_owned(), "true".to_owned()),
        ];
        entries.extend_from_slice(kept);
        entries.extend(urls.iter().map(|url| (format!("remote.{remote}.url"), url.clone())));
        entries.push((format!("remote.{remote}.fetch"), format!("+refs/heads/*:refs/remotes/{remote}/*")));
        let text: String = entries.iter().map(|(key, value)| config_entry(key, value)).collect();
        fs::write(path.join("config"), text)?;
        for name in ["objects", "refs", "logs", "packed-refs", "shallow", "reftable"] {
            let real = repo.common_dir.join(name);
            // A bare repository has none yet, and git does not create a folder at the end of a
            // link.
            if name == "logs" {
                fs::create_dir_all(&real)?;
            }
            // Git creates the first four if they are missing; the other two change the kind of the
            // repository.
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

/// Formats one setting for a config file; name and value may contain any character.
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

/// Tells whether a text is an address to clone from, not a path on this machine.
pub fn is_url(text: &str) -> bool {
    if text.contains("://") {
        return true;
    }
    // `user@host:path`: a colon before the first slash, and not an existing path.
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
