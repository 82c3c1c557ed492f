//! Clones a repository to register it.

use std::path::Path;
use std::time::Duration;

use crate::repository::RepositoryError;
use crate::{Git, GitError, GitLocation, Repository};

impl Git {
    /// Checks that a repository answers at an address, with the credential that is known for it.
    pub async fn check_reachable(&self, url: &str, limit: Duration) -> Result<(), GitError> {
        let call = self.new_command(GitLocation::Dir(Path::new("/")), "ls-remote");
        let call = call.args(["--upload-pack=git-upload-pack", "--end-of-options", url, "HEAD"]);
        call.with_network_access().with_timeout(limit).with_credential(self.shown_at(url).await?).run().await.map(drop)
    }
}

impl Repository {
    /// Clones `url` to `target`, which must not exist; a failed clone leaves nothing there.
    pub async fn clone_to(git: &Git, url: &str, target: &Path) -> Result<Self, RepositoryError> {
        let parent = target.parent().unwrap_or(Path::new("/"));
        // An empty template: the machine's hooks do not get into our repository.
        let volume = if git.progress_callback().is_some() { "--progress" } else { "--quiet" };
        let flags = [volume, "--template=", "--upload-pack=git-upload-pack"];
        let clone = git.new_command(GitLocation::Dir(parent), "clone").args(flags).args(["--end-of-options", url]);
        let clone = clone.arg(target).with_network_access().reporting_progress();
        clone.with_credential(git.shown_at(url).await?).run().await?;
        Repository::discover_repository(git, target).await
    }
}

/// Returns owner and repository as an address names them: `acme`, `app` of
/// `https://host/acme/app.git`. Nested groups are joined to one owner.
pub fn owner_and_name(url: &str) -> Option<(String, String)> {
    let path = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?.1,
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?.1,
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let (owner, name) = path.rsplit_once('/')?;
    (!owner.is_empty() && !name.is_empty()).then(|| (owner.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::is_url;

    #[test]
    fn addresses_are_told_from_paths() {
        for url in ["https://github.com/a/b", "git@github.com:a/b.git", "ssh://git@h/a", "file:///x", "host:a/b"] {
            assert!(is_url(url), "{url}");
        }
        for path in ["/a/b", ".", "../x", "a/b:c", "name", "./a:b"] {
            assert!(!is_url(path), "{path}");
        }
    }

    #[test]
    fn owners_are_read_from_addresses() {
        let read = |url| owner_and_name(url).map(|(owner, name)| format!("{owner} {name}"));
        assert_eq!(read("https://github.com/acme/app.git").as_deref(), Some("acme app"));
        assert_eq!(read("git@github.com:acme/app.git").as_deref(), Some("acme app"));
        assert_eq!(read("ssh://git@host:22/group/sub/app/").as_deref(), Some("group/sub app"));
        assert_eq!(read("https://***@github.com/acme/app").as_deref(), Some("acme app"));
        assert_eq!(read("/srv/git/app.git"), None);
        assert_eq!(read("file:///srv/git/app.git"), None);
        assert_eq!(read("https://host/app"), None);
    }
}
