//! Updates the bases of work from their remotes, before deciding whether the work is merged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;

use grove_model::{BranchName, Moment};

use crate::Repository;
use crate::base::{BaseError, FetchPolicy, REMOTE_QUERY_TIMEOUT, is_fresh, no_answer};
use crate::verdict::BranchTips;

/// A base whose remote could not be queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutdatedBase {
    /// As people name it: `origin/main`.
    pub name: String,
    /// The useful line of git's error.
    pub line: String,
    /// The time of its newest commit that is known here.
    pub committed: Option<Moment>,
}

impl fmt::Display for OutdatedBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutdatedBase { name, line, committed } = self;
        write!(f, "`{name}` could not be fetched ({line}), so it counts as it was last seen")?;
        match committed {
            Some(then) => write!(f, "; its newest commit is {} old.", Moment::now().age_since(*then)),
            None => f.write_str("."),
        }
    }
}

impl Repository {
    /// Queries each remote once for the bases that are on it, or that follow a branch on it. Returns the
    /// bases whose remote did not answer. Work that is on no remote costs no process.
    pub async fn refresh_bases(
        &self,
        tips: &BranchTips,
        bases: &BTreeSet<&str>,
        policy: FetchPolicy,
    ) -> Result<Vec<OutdatedBase>, BaseError> {
        let tracking: BTreeSet<&str> = bases.iter().filter_map(|base| tips.tracking_ref_of(base)).collect();
        if policy == FetchPolicy::Never || tracking.is_empty() {
            return Ok(Vec::new());
        }
        let remotes = self.list_remotes().await?;
        let mut wanted: BTreeMap<&str, Vec<(BranchName, &str)>> = BTreeMap::new();
        for full_ref in tracking {
            let below = |name: &str| full_ref.strip_prefix("refs/remotes/")?.strip_prefix(name)?.strip_prefix('/');
            let found = remotes.iter().find_map(|remote| Some((&remote.name, below(&remote.name)?)));
            let Some((remote, branch)) = found else { continue };
            let Ok(branch) = BranchName::parse(branch) else { continue };
            if policy == FetchPolicy::Always || !is_fresh(&self.fetch_stamp(remote, &branch)?) {
                wanted.entry(remote).or_default().push((branch, full_ref));
            }
        }
        let limit = self.remote_options.fetch_timeout.unwrap_or(REMOTE_QUERY_TIMEOUT).min(REMOTE_QUERY_TIMEOUT);
        let mut outdated = Vec::new();
        for (remote, branches) in wanted {
            let names: Vec<&BranchName> = branches.iter().map(|(branch, _)| branch).collect();
            match self.update_tracking(remote, &names, limit).await {
                Ok(_) => {
                    for branch in names {
                        File::create(self.fetch_stamp(remote, branch)?)?;
                    }
                }
                Err(BaseError::Git(error)) => outdated.extend(branches.iter().map(|(branch, full_ref)| OutdatedBase {
                    name: format!("{remote}/{branch}"),
                    line: no_answer(&error),
                    committed: tips.committed_at(full_ref),
                })),
                Err(error) => return Err(error),
            }
        }
        Ok(outdated)
    }
}
