//! Chooses the remote, and the commit that new work starts from.
//!
//! The order is fixed and nothing is guessed: the base that the person gave, the setting, the
//! default branch that the codebase recorded, the remote's HEAD; otherwise an error that says how
//! to set it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use grove_model::{BranchName, CommitSha, Moment, Nonce, short_hash};

use crate::lock::{grove_dir, repository_lock};
use crate::network::TransferDirection;
use crate::repository::Remote;
use crate::{GitError, Repository};

/// With `worktree.fetch = "auto"`, a remote is not queried again within this time.
const FETCH_FRESHNESS: Duration = Duration::from_secs(60);
/// The time that a remote has to list its refs.
pub(crate) const REMOTE_QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that a remote without a known default branch has to say whether it has any branch.
const EMPTY_REMOTE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    #[error("the remote `{wanted}` is not one of this repository's: {}", join_names(.known))]
    UnknownRemote { wanted: String, known: Vec<String> },
    #[error("this repository has several remotes and none is called origin: {}", join_names(.0))]
    SeveralRemotes(Vec<String>),
    #[error("there is no base branch to start from: `{remote}` does not say which branch is its default")]
    NoBase { remote: String },
    #[error("there is no base branch to start from: `{remote}` has no branches yet")]
    EmptyRemote { remote: String },
    #[error("there is no base branch to start from: the main checkout is on no branch")]
    Detached,
    #[error("there is no base branch to start from: `{0}` has no commits yet")]
    Unborn(String),
    #[error("the base `{0}` is not a branch, tag or commit of this repository")]
    Unknown(String),
    #[error("the base `{base}` is not known here and `{remote}` could not be asked: {line}")]
    Unreachable { base: String, remote: String, line: String },
    #[error("`{name}` is at different commits here and on `{remote}`, and neither contains the other")]
    Diverged { name: String, remote: String },
    #[error("the repository's directory cannot be written: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Git(#[from] GitError),
}

fn join_names(names: &[String]) -> String {
    if names.is_empty() { "it has none".to_owned() } else { names.join(", ") }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchPolicy {
    /// Queries the remote unless that was done in the last minute.
    #[default]
    Auto,
    Always,
    Never,
}

/// The possible sources of the base's name, strongest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct BasePreference<'a> {
    /// `--from`: any branch, tag or commit.
    pub explicit: Option<&'a str>,
    /// `worktree.base_branch`.
    pub setting: Option<&'a str>,
    /// The codebase's default branch.
    pub recorded: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseCommit {
    /// As people name it: `origin/main`, `main`, `v1.2`.
    pub name: String,
    pub sha: CommitSha,
    pub committed: Option<Moment>,
    /// The useful line of git's error, if the remote could not be queried.
    pub not_fetched: Option<String>,
}

/// Chooses the remote: the setting, `origin`, or the only one. `None`: the repository has none.
pub fn choose_remote(setting: Option<&str>, remotes: &[Remote]) -> Result<Option<String>, BaseError> {
    let known = || remotes.iter().map(|remote| remote.name.clone()).collect();
    let has = |name: &str| remotes.iter().any(|remote| remote.name == name);
    match (setting, remotes) {
        (Some(wanted), _) if has(wanted) => Ok(Some(wanted.to_owned())),
        (Some(wanted), _) => Err(BaseError::UnknownRemote { wanted: wanted.to_owned(), known: known() }),
        (None, []) => Ok(None),
        (None, _) if has("origin") => Ok(Some("origin".to_owned())),
        (None, [only]) => Ok(Some(only.name.clone())),
        (None, _) => Err(BaseError::SeveralRemotes(known())),
    }
}

/// Returns the remote that a base names itself (`upstream/main`), or else the chosen one.
pub fn remote_of_base<'a>(explicit: Option<&str>, chosen: Option<&'a str>, remotes: &'a [Remote]) -> Option<&'a str> {
    let named = |remote: &&Remote| explicit.is_some_and(|name| name.starts_with(&format!("{}/", remote.name)));
    remotes.iter().find(named).map(|remote| remote.name.as_str()).or(chosen)
}

/// Tells whether work can continue without a remote's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerNecessity {
    CanDoWithout,
    Essential,
}

/// Describes why a remote did not answer.
pub(crate) fn no_answer(error: &GitError) -> String {
    match error {
        GitError::TimedOut { after, .. } => format!("it did not answer within {} s", after.as_secs()),
        other => other.reason_line(),
    }
}

/// The result of querying a remote.
#[derive(Debug)]
pub enum RemoteAnswer {
    /// The remote answered; `refs/remotes/<remote>/` now has its branches' tips. `missing` are the
    /// requested branches that the remote does not have.
    Fresh {
        missing: Vec<BranchName>,
    },
    /// The remote was not queried: the policy forbids it, or it was queried a moment ago.
    Skipped,
    Failed {
        line: String,
    },
}

impl RemoteAnswer {
    /// Tells whether the remote is known not to have this branch.
    pub fn is_missing(&self, branch: &BranchName) -> bool {
        matches!(self, RemoteAnswer::Fresh { missing } if missing.contains(branch))
    }
}

impl Repository {
    /// Queries the remote about the base and about the branch to be created, as the policy says. No answer in
    /// time counts as a failure; the time is shorter where the caller can do without an answer.
    pub(crate) async fn query_remote(
        &self,
        remote: &str,
        base: Option<&BranchName>,
        also: Option<&BranchName>,
        policy: FetchPolicy,
        need: AnswerNecessity,
    ) -> Result<RemoteAnswer, BaseError> {
        if policy == FetchPolicy::Never {
            return Ok(RemoteAnswer::Skipped);
        }
        let stamp = base.map(|base| self.fetch_stamp(remote, base)).transpose()?;
        if policy == FetchPolicy::Auto && stamp.as_deref().is_some_and(is_fresh) {
            // The base is fresh enough. Asking whether the remote already has the new branch is
            // still worthwhile, but an unanswered query is not worth a warning.
            let Some(also) = also else { return Ok(RemoteAnswer::Skipped) };
            let asked = self.update_tracking(remote, &[also], Duration::from_secs(5)).await;
            return Ok(asked.map_or(RemoteAnswer::Skipped, |missing| RemoteAnswer::Fresh { missing }));
        }
        let branches: Vec<&BranchName> = base.into_iter().chain(also).collect();
        if branches.is_empty() {
            return Ok(RemoteAnswer::Skipped);
        }
        let limit = match need {
            AnswerNecessity::CanDoWithout => self.remote_options.fetch_timeout.unwrap_or(REMOTE_QUERY_TIMEOUT),
            AnswerNecessity::Essential => REMOTE_QUERY_TIMEOUT,
        };
        Ok(match self.update_tracking(remote, &branches, limit).await {
            Ok(missing) => {
                if let Some(stamp) = stamp {
                    File::create(stamp)?;
                }
                RemoteAnswer::Fresh { missing }
            }
            Err(BaseError::Git(error)) => RemoteAnswer::Failed { line: no_answer(&error) },
            Err(error) => return Err(error),
        })
    }

    /// Updates the remote-tracking refs of `branches` and returns those that the remote does not
    /// have. One `ls-remote` lists the remote's tips and only refs that differ are fetched, so the
    /// usual case moves no objects at all. A remote that sends nothing for `limit` has failed.
    pub async fn update_tracking(
        &self,
        remote: &str,
        branches: &[&BranchName],
        limit: Duration,
    ) -> Result<Vec<BranchName>, BaseError> {
        let wanted: Vec<String> = branches.iter().map(|branch| branch.full_ref()).collect();
        let there = self.ask_remote(remote, &wanted, limit).await?;
        // One fetch at a time in one repository: two fetches of one ref fail on its lock.
        let _lock = repository_lock(&self.common_dir, "fetch.lock").await?;
        let tracking: Vec<String> = branches.iter().map(|branch| tracking_ref(remote, branch)).collect();
        let here = self.list_refs(&tracking).await?;
        let mut missing = Vec::new();
        let mut refspecs = Vec::new();
        for (branch, tracking) in branches.iter().zip(&tracking) {
            match there.iter().find(|(name, _)| *name == branch.full_ref()) {
                None => missing.push((*branch).clone()),
                Some((_, tip)) if here.get(tracking).is_some_and(|line| line.at == *tip) => {}
                Some((name, _)) => refspecs.push(format!("+{name}:{tracking}")),
            }
        }
        if !refspecs.is_empty() {
            self.fetch_within(remote, &refspecs, limit).await?;
        }
        Ok(missing)
    }

    /// Returns the tips of exactly these refs of the remote; refs that it does not have are left
    /// out.
    pub async fn ask_remote(
        &self,
        remote: &str,
        refs: &[String],
        limit: Duration,
    ) -> Result<Vec<(String, CommitSha)>, GitError> {
        let access = self.access_remote(remote, TransferDirection::Fetch).await?;
        let output =
            access.run_remote_command(access.remote_command("ls-remote", &[], refs).with_timeout(limit)).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut found = Vec::new();
        for line in text.lines() {
            let (id, name) = line.split_once('\t').ok_or_else(|| GitError::unreadable_output("ls-remote", line))?;
            // `ls-remote` matches the end of a name; only the whole name counts here.
            if refs.iter().any(|wanted| wanted == name) {
                found.push((name.to_owned(), id.parse().map_err(|_| GitError::unreadable_output("ls-remote", line))?));
            }
        }
        Ok(found)
    }

    /// Tells whether a remote answers that it has no branches. A remote that does not answer may
    /// have some.
    async fn has_no_branches(&self, remote: &str) -> bool {
        let Ok(access) = self.access_remote(remote, TransferDirection::Fetch).await else { return false };
        let listed =
            access.remote_command("ls-remote", &["--heads"], &[]).with_timeout(EMPTY_REMOTE_TIMEOUT).run().await;
        listed.is_ok_and(|output| output.stdout.is_empty())
    }

    /// Fetches exactly these refspecs and nothing else: no tags, no FETCH_HEAD, no pruning.
    pub async fn fetch_refspecs(&self, remote: &str, refspecs: &[String]) -> Result<(), GitError> {
        self.fetch_within(remote, refspecs, REMOTE_QUERY_TIMEOUT).await
    }

    /// Fetches exactly these refspecs; fails if the remote sends nothing for `silence`. A fetch that
    /// continues, however slowly, reports its progress.
    async fn fetch_within(&self, remote: &str, refspecs: &[String], silence: Duration) -> Result<(), GitError> {
        let flags = [
            "--progress",
            "--atomic",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-prune",
            "--no-recurse-submodules",
        ];
        let access = self.access_remote(remote, TransferDirection::Fetch).await?;
        let mut fetch = access.remote_command("fetch", &flags, refspecs).silence_limit(silence).reporting_progress();
        if let Some(creation) = self.remote_options.creation {
            fetch = fetch.with_env("GIT_REFLOG_ACTION", reflog_reason(creation));
        }
        access.run_remote_command(fetch).await.map(drop)
    }

    pub(crate) fn fetch_stamp(&self, remote: &str, branch: &BranchName) -> Result<PathBuf, BaseError> {
        let dir = grove_dir(&self.common_dir)?.join("fetched");
        fs::create_dir_all(&dir)?;
        Ok(dir.join(short_hash(format!("{remote}\0{branch}").as_bytes(), 16)))
    }

    /// Returns the name of the base without checking that it exists.
    async fn base_name(&self, preference: &BasePreference<'_>, remote: Option<&str>) -> Result<String, BaseError> {
        if let Some(name) = preference.explicit.or(preference.setting).or(preference.recorded) {
            return Ok(name.to_owned());
        }
        if let Some(remote) = remote {
            let head = format!("refs/remotes/{remote}/HEAD");
            let known = self.new_command("symbolic-ref").args(["--quiet", &head]).run_for(&[0, 1, 128]).await?;
            let target = String::from_utf8_lossy(&known.stdout).trim_end().to_owned();
            match target.strip_prefix(&format!("refs/remotes/{remote}/")) {
                Some(branch) => return Ok(branch.to_owned()),
                // No person works in a bare repository: its HEAD is the remote's HEAD at the time
                // of the clone.
                None if self.bare => {}
                None => return Err(BaseError::NoBase { remote: remote.to_owned() }),
            }
        }
        self.current_branch().await?.ok_or(BaseError::Detached)
    }

    /// Returns the default branch to record for this repository, if it names one.
    pub async fn default_branch(&self, remote: Option<&str>) -> Result<Option<String>, BaseError> {
        match self.base_name(&BasePreference::default(), remote).await {
            Ok(name) => Ok(Some(name)),
            Err(BaseError::NoBase { .. } | BaseError::Detached) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds the commit to start from. `also` are branches to update in the same query to the
    /// remote; the second value is the remote's answer.
    pub async fn find_base(
        &self,
        preference: &BasePreference<'_>,
        remote: Option<&str>,
        policy: FetchPolicy,
        also: Option<&BranchName>,
    ) -> Result<(BaseCommit, RemoteAnswer), BaseError> {
        let name = match self.base_name(preference, remote).await {
            Err(BaseError::NoBase { remote })
                if policy != FetchPolicy::Never && self.has_no_branches(&remote).await =>
            {
                return Err(BaseError::EmptyRemote { remote });
            }
            name => name?,
        };
        let Some(remote) = remote else {
            return Ok((self.base_here(&name).await?, RemoteAnswer::Skipped));
        };
        let on_remote = name.strip_prefix(&format!("{remote}/"));
        let is_commit = name.parse::<CommitSha>().is_ok();
        let Some(branch) = BranchName::parse(on_remote.unwrap_or(&name)).ok().filter(|_| !is_commit) else {
            // `HEAD~2` or a commit id: a remote cannot be queried for it.
            let asked = self.query_remote(remote, None, also, policy, AnswerNecessity::CanDoWithout).await?;
            return Ok((self.base_here(&name).await?, asked));
        };
        let tracking = tracking_ref(remote, &branch);
        let patterns = [tracking.clone(), branch.full_ref(), format!("refs/tags/{branch}")];
        let known = self.list_refs(&patterns).await?;
        // Known here and never seen on the remote: the branch is only local, so the remote is not
        // queried. (A bare repository keeps the remote's branches as its own.)
        let untracked = known.get(&tracking).is_none() && patterns.iter().any(|name| known.get(name).is_some());
        let ours_alone = untracked && !self.bare;
        // A short id is not among the refs.
        let is_known = patterns.iter().any(|name| known.get(name).is_some()) || self.commit_of(&name).await?.is_some();
        let need = if is_known { AnswerNecessity::CanDoWithout } else { AnswerNecessity::Essential };
        let asked = self.query_remote(remote, (!ours_alone).then_some(&branch), also, policy, need).await?;
        let not_fetched = match &asked {
            RemoteAnswer::Failed { line } => Some(line.clone()),
            _ => None,
        };

        let known = self.list_refs(&patterns).await?;
        let Some(theirs) = known.get(&tracking).filter(|_| !asked.is_missing(&branch)) else {
            return match (self.base_here(&name).await, not_fetched) {
                (Ok(base), not_fetched) => Ok((BaseCommit { not_fetched, ..base }, asked)),
                (Err(BaseError::Unknown(base)), Some(line)) => {
                    Err(BaseError::Unreachable { base, remote: remote.to_owned(), line })
                }
                (Err(error), _) => Err(error),
            };
        };
        let remote_base = BaseCommit {
            name: format!("{remote}/{branch}"),
            sha: theirs.at.clone(),
            committed: theirs.committed.and_then(Moment::from_unix),
            not_fetched,
        };
        // A person who names a branch explicitly means the newer of the two.
        match known.branch_ref(&branch) {
            Some(ours) if preference.explicit.is_some() && on_remote.is_none() && ours.at != theirs.at => {
                if self.is_ancestor(&ours.at, &theirs.at).await? {
                    Ok((remote_base, asked))
                } else if self.is_ancestor(&theirs.at, &ours.at).await? {
                    Ok((BaseCommit { not_fetched: remote_base.not_fetched, ..self.base_here(&name).await? }, asked))
                } else {
                    Err(BaseError::Diverged { name, remote: remote.to_owned() })
                }
            }
            _ => Ok((remote_base, asked)),
        }
    }

    /// Resolves the base from this repository alone. A ref keeps its name; other expressions
    /// (`HEAD~2`, a short id) would mean something else tomorrow, so they become the commit.
    async fn base_here(&self, name: &str) -> Result<BaseCommit, BaseError> {
        let head = matches!(name, "HEAD" | "@");
        let branch = if head { self.current_branch().await? } else { None };
        let name = branch.as_deref().unwrap_or(name);
        let full = ["refs/heads/", "refs/tags/", "refs/remotes/", ""].map(|prefix| format!("{prefix}{name}"));
        if BranchName::parse(name).is_ok() {
            let refs = self.list_refs(&full[..if name.starts_with("refs/") { 4 } else { 3 }]).await?;
            if let Some(line) = full.iter().find_map(|name| refs.get(name)) {
                let committed = line.committed.and_then(Moment::from_unix);
                return Ok(BaseCommit { name: name.to_owned(), sha: line.at.clone(), committed, not_fetched: None });
            }
        }
        let Some(sha) = self.commit_of(name).await? else {
            let unborn = self.current_branch().await?.as_deref() == Some(name);
            return Err(if unborn { BaseError::Unborn(name.to_owned()) } else { BaseError::Unknown(name.to_owned()) });
        };
        let show = self.new_command("show").args(["--no-patch", "--no-show-signature", "--format=%ct", sha.as_str()]);
        let committed = show.run_to_text().await?.trim().parse().ok().and_then(Moment::from_unix);
        Ok(BaseCommit { name: sha.to_string(), sha, committed, not_fetched: None })
    }
}

/// Returns the reflog message for a ref that a creation made or moved.
pub(crate) fn reflog_reason(creation: Nonce) -> String {
    format!("grove: {creation}")
}

pub(crate) fn tracking_ref(remote: &str, branch: &BranchName) -> String {
    format!("refs/remotes/{remote}/{branch}")
}

/// Returns the refs that forges use for the head of a pull request: GitHub's, then GitLab's.
pub(crate) fn pull_request_refs(number: u64) -> [String; 2] {
    [format!("refs/pull/{number}/head"), format!("refs/merge-requests/{number}/head")]
}

/// Tells whether a remote was queried about a branch within [`FETCH_FRESHNESS`].
pub(crate) fn is_fresh(stamp: &std::path::Path) -> bool {
    let modified = fs::metadata(stamp).and_then(|meta| meta.modified());
    // A stamp in the future (the clock was set back) proves nothing.
    modified.is_ok_and(|then| SystemTime::now().duration_since(then).is_ok_and(|age| age < FETCH_FRESHNESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_remotes(names: &[&str]) -> Vec<Remote> {
        names.iter().map(|name| Remote { name: (*name).to_owned(), url: String::new() }).collect()
    }

    #[test]
    fn the_remote_is_never_a_guess() {
        let chosen = |setting, names: &[&str]| choose_remote(setting, &make_remotes(names));
        assert_eq!(chosen(None, &["upstream", "origin"]).unwrap().as_deref(), Some("origin"));
        assert_eq!(chosen(None, &["upstream"]).unwrap().as_deref(), Some("upstream"));
        assert_eq!(chosen(Some("upstream"), &["upstream", "origin"]).unwrap().as_deref(), Some("upstream"));
        assert_eq!(chosen(None, &[]).unwrap(), None);
        assert!(chosen(None, &["a", "b"]).unwrap_err().to_string().ends_with("a, b"));
        assert!(chosen(Some("x"), &["a"]).unwrap_err().to_string().contains("`x`"));
        assert!(chosen(Some("x"), &[]).unwrap_err().to_string().contains("it has none"));
    }
}
