//! Reads and writes the upstream of a branch: `branch.NAME.remote` and `branch.NAME.merge` in the
//! repository's config.
//!
//! Both keys are written directly, not by `git branch --set-upstream-to`: that refuses a branch which the
//! remote's own configuration does not fetch, as in a clone of a single branch. `git pull` and `git push`
//! need no more than these two.

use std::io;
use std::time::Duration;

use grove_model::BranchName;
use serde::{Deserialize, Serialize};

use crate::lock::{FileLock, repository_lock};
use crate::{GitError, Repository};

/// The number of attempts to write a config that another program is writing, and the delay between
/// them.
const MAX_CONFIG_ATTEMPTS: usize = 50;
const CONFIG_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The values of the two keys; `None` if the branch follows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    remote: Vec<String>,
    merge: Vec<String>,
}

impl Upstream {
    /// Returns the branch of the same name on `remote`.
    pub(crate) fn on_remote(remote: &str, branch: &BranchName) -> Self {
        Self { remote: vec![remote.to_owned()], merge: vec![branch.full_ref()] }
    }

    /// Replaces each value that is equal to that of `old` by that of `new`.
    pub(crate) fn replace_equal(&mut self, old: &Self, new: &Self) {
        for (now, old, new) in [(&mut self.remote, &old.remote, &new.remote), (&mut self.merge, &old.merge, &new.merge)]
        {
            if now == old {
                now.clone_from(new);
            }
        }
    }

    /// Returns the name that people use (`origin/main`), if the upstream is one branch of a remote.
    pub(crate) fn short_name(&self) -> Option<String> {
        let ([remote], [merge]) = (&self.remote[..], &self.merge[..]) else { return None };
        let branch = merge.strip_prefix("refs/heads/").filter(|_| remote != ".")?;
        Some(format!("{remote}/{branch}"))
    }
}

/// Locks the repository's config among Grovekeeper's own processes.
pub(crate) async fn lock_config(repo: &Repository) -> io::Result<FileLock> {
    repository_lock(&repo.common_dir, "config.lock").await
}

impl Repository {
    /// Reads the upstream that the repository's own config has for a branch.
    pub(crate) async fn read_upstream(&self, branch: &BranchName) -> Result<Upstream, GitError> {
        let listed = self.new_command("config").args(["--local", "--list", "-z"]).run().await?.stdout;
        let listed = String::from_utf8_lossy(&listed);
        let values = |variable: &str| {
            let key = format!("branch.{branch}.{variable}");
            let entries = listed.split('\0').filter_map(|entry| entry.split_once('\n'));
            entries.filter(|(known, _)| *known == key).map(|(_, value)| value.to_owned()).collect()
        };
        Ok(Upstream { remote: values("remote"), merge: values("merge") })
    }

    /// Writes the upstream of a branch if it differs; an empty one is removed.
    pub(crate) async fn write_upstream(
        &self,
        _lock: &FileLock,
        branch: &BranchName,
        upstream: &Upstream,
    ) -> Result<(), GitError> {
        let now = self.read_upstream(branch).await?;
        for (variable, now, wanted) in
            [("remote", &now.remote, &upstream.remote), ("merge", &now.merge, &upstream.merge)]
        {
            let key = format!("branch.{branch}.{variable}");
            match wanted.split_first() {
                _ if now == wanted => {}
                None => self.edit_config(&["--unset-all", &key]).await?,
                Some((first, rest)) => {
                    self.edit_config(&["--replace-all", &key, first]).await?;
                    for value in rest {
                        self.edit_config(&["--add", &key, value]).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Edits the config, with retries while another process writes it: git itself does not wait.
    async fn edit_config(&self, args: &[&str]) -> Result<(), GitError> {
        let mut tries = 0;
        loop {
            match self.new_command("config").arg("--local").args(args).run().await {
                Err(GitError::Failed { stderr, .. })
                    if stderr.contains("could not lock config file") && tries < MAX_CONFIG_ATTEMPTS =>
                {
                    tries += 1;
                    tokio::time::sleep(CONFIG_RETRY_INTERVAL).await;
                }
                done => return done.map(drop),
            }
        }
    }
}
