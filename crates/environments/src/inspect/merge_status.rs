//! The merge status of an environment's work: whether it is merged, and whether it is still active.
//!
//! One definition for the list, the clean-up, the limit and the page. Git judges all environments together
//! ([`grove_git::verdict`]), and the verdicts are cached by commit. Staleness uses the newest of the last
//! message, the last commit and the last change to a file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use grove_git::checked_out::CheckedOut;
use grove_git::verdict::{BranchTips, MergeVerdict, VerdictSubject, find_verdicts, worked_on};
use grove_git::{GitError, Repository};
use grove_model::{Codebase, CommitSha, Environment, EnvironmentId, MergeMethod, Moment, Status, WorkKind};
use jiff::SignedDuration;

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::settings::is_permanent_platform;

/// The merge status of one environment's work.
#[derive(Clone, Debug)]
pub struct MergeStatus {
    pub verdict: MergeVerdict,
    /// The commit of the recorded branch that was judged.
    pub head: Option<CommitSha>,
    /// The checkout, if it is not the recorded branch.
    pub checked_out: Option<CheckedOut>,
    /// The newest of the last message, the last commit and, if both are old, the last change to a file.
    pub last_active: Moment,
    pub stale: bool,
}

/// The time for which a verdict is cached.
const VERDICT_CACHE_DURATION: SignedDuration = SignedDuration::from_hours(24 * 60);

impl Environments {
    /// Returns the merge status of each environment at `now`.
    pub async fn merge_statuses(
        &self,
        codebase: &Codebase,
        environments: &[Environment],
        now: Moment,
    ) -> Result<HashMap<EnvironmentId, MergeStatus>, EnvironmentError> {
        let repo = self.open_repository(codebase);
        let tips = match BranchTips::load_tips(&repo).await {
            Ok(tips) => tips,
            Err(error) => return Ok(unknown_statuses(environments, &error)),
        };
        let heads = self.read_heads(codebase, environments).await;
        let mut verdicts = self.judge_environments(codebase, &repo, &tips, environments, &heads).await?;
        let uses = self.store.uses_in(codebase.id).await?;
        let threshold = SignedDuration::from_hours(24 * self.settings.current().stale_days().min(36_500).cast_signed());
        let mut found = HashMap::new();
        for environment in environments {
            let verdict = verdicts.remove(&environment.id).unwrap_or_else(not_asked);
            let uses = uses.get(&environment.id).map(Vec::as_slice).unwrap_or_default();
            let checked_out = heads.get(&environment.id).and_then(|head| head.as_ref().ok()).cloned();
            let committed = tips.committed_at(&environment.branch.full_ref());
            let other = checked_out.as_ref().and_then(CheckedOut::branch_name);
            let other = other.and_then(|branch| tips.committed_at(&branch.full_ref()));
            let messages = uses.iter().map(|(_, at)| *at);
            let seen = messages.chain([environment.last_activity_at]).chain(committed).chain(other);
            let mut last_active = seen.max().unwrap_or(environment.last_activity_at);
            let permanent = uses.iter().map(|(platform, _)| platform.as_str());
            let permanent = permanent.chain(environment.created_by_platform.as_deref()).any(is_permanent_platform);
            let old = |moment: Moment| now.duration_since(moment) > threshold;
            let mut stale = environment.status == Status::Active && !permanent && old(last_active);
            if stale {
                // Only now is it worth reading every file. An environment that cannot be read is not stale.
                match last_change(&environment.path) {
                    Some(changed) => {
                        last_active = last_active.max(changed);
                        stale = old(last_active);
                    }
                    None => stale = false,
                }
            }
            let head = tips.commit_at(&environment.branch.full_ref()).cloned();
            found.insert(environment.id, MergeStatus { verdict, head, checked_out, last_active, stale });
        }
        Ok(found)
    }

    /// Returns what is checked out in environments where it is not the recorded branch, or the reason why
    /// that is not known.
    async fn read_heads(
        &self,
        codebase: &Codebase,
        environments: &[Environment],
    ) -> HashMap<EnvironmentId, Result<CheckedOut, GitError>> {
        let mut heads = HashMap::new();
        for environment in environments.iter().filter(|environment| self.is_here(environment)) {
            match self.provider.checked_out(codebase, &environment.path).await {
                Ok(None) => {}
                Ok(Some(now)) if now.is_on(&environment.branch) => {}
                Ok(Some(now)) => drop(heads.insert(environment.id, Ok(now))),
                Err(error) => drop(heads.insert(environment.id, Err(error))),
            }
        }
        heads
    }

    /// Returns the verdicts on recorded branches, combined with those on what is checked out instead.
    async fn judge_environments(
        &self,
        codebase: &Codebase,
        repo: &Repository,
        tips: &BranchTips,
        environments: &[Environment],
        heads: &HashMap<EnvironmentId, Result<CheckedOut, GitError>>,
    ) -> Result<HashMap<EnvironmentId, MergeVerdict>, EnvironmentError> {
        let of_heads = heads.values().filter_map(|head| head.as_ref().ok()?.branch_name());
        let branches = environments.iter().map(|environment| &environment.branch).chain(of_heads);
        let branches: Vec<String> =
            branches.map(|b| b.full_ref()).filter(|name| tips.commit_at(name).is_some()).collect();
        let worked = match worked_on(repo, &branches).await {
            Ok(worked) => worked,
            Err(error) => return Ok(environments.iter().map(|e| (e.id, unknown_verdict(&error))).collect()),
        };
        let recorded = environments.iter().map(|environment| {
            let branch = CheckedOut::Branch(environment.branch.clone());
            merge_subject(tips, &worked, environment, &branch)
        });
        let other = environments.iter().filter_map(|environment| {
            Some((
                environment.id,
                heads
                    .get(&environment.id)?
                    .as_ref()
                    .map_err(ToString::to_string)
                    .and_then(|head| merge_subject(tips, &worked, environment, head).map_err(str::to_owned)),
            ))
        });
        let other: Vec<(EnvironmentId, Result<VerdictSubject, String>)> = other.collect();
        let ids = environments.iter().map(|environment| environment.id);
        let all: Vec<Result<VerdictSubject, String>> = recorded
            .map(|subject| subject.map_err(str::to_owned))
            .chain(other.iter().map(|(_, subject)| subject.clone()))
            .collect();
        let mut verdicts = self.verdicts_on(codebase, repo, &all).await?.into_iter();
        let mut found: HashMap<EnvironmentId, MergeVerdict> = ids.zip(verdicts.by_ref()).collect();
        self.ask_forge(codebase, tips, environments, &mut found).await;
        for ((id, _), verdict) in other.iter().zip(verdicts) {
            // The work is merged only if both are.
            if verdict.merged_by().is_none() {
                found.insert(*id, verdict);
            }
        }
        Ok(found)
    }

    /// Returns the verdicts in the order of the subjects: the cached ones, and git's verdicts on the rest.
    async fn verdicts_on(
        &self,
        codebase: &Codebase,
        repo: &Repository,
        all: &[Result<VerdictSubject, String>],
    ) -> Result<Vec<MergeVerdict>, EnvironmentError> {
        let known = self.store.list_verdicts(codebase.id).await?;
        let (mut found, mut asked) = (Vec::new(), Vec::new());
        for subject in all {
            let remembered =
                |subject: &VerdictSubject| known.get(&key_of(subject)).and_then(|text| serde_json::from_str(text).ok());
            found.push(match subject {
                Err(why) => unknown_verdict(why),
                Ok(subject) => remembered(subject).unwrap_or_else(|| {
                    asked.push((found.len(), subject.clone()));
                    not_asked()
                }),
            });
        }
        let subjects: Vec<VerdictSubject> = asked.iter().map(|(_, subject)| subject.clone()).collect();
        match find_verdicts(repo, &subjects).await {
            Ok(new) if new.is_empty() => {}
            Ok(new) => {
                let mut kept = Vec::new();
                for ((place, subject), verdict) in asked.into_iter().zip(new) {
                    if !matches!(verdict, MergeVerdict::Unknown { .. }) {
                        kept.extend(serde_json::to_string(&verdict).ok().map(|text| (key_of(&subject), text)));
                    }
                    found[place] = verdict;
                }
                let old = Moment::now().add_duration(-VERDICT_CACHE_DURATION);
                if let Err(error) = self.store.keep_verdicts(codebase.id, &kept, old).await {
                    tracing::warn!("verdicts could not be remembered: {error}");
                }
            }
            Err(error) => {
                for (place, _) in asked {
                    found[place] = unknown_verdict(&error);
                }
            }
        }
        Ok(found)
    }

    /// Asks the forge for merges that git cannot see. It is believed only for the same commit. The
    /// record holds what it has already reported.
    async fn ask_forge(
        &self,
        codebase: &Codebase,
        tips: &BranchTips,
        environments: &[Environment],
        found: &mut HashMap<EnvironmentId, MergeVerdict>,
    ) {
        for environment in environments {
            let (ahead, behind) = match found.get(&environment.id) {
                Some(MergeVerdict::Unmerged { ahead, behind }) => (*ahead, *behind),
                // A pull request that got no commit here since it was merged.
                Some(MergeVerdict::Fresh { behind }) if is_pull_request(environment) => (0, *behind),
                _ => continue,
            };
            let told = environment.metadata.pr.as_ref().filter(|pr| pr.is_merged()).and_then(|pr| pr.head.clone());
            let merged = match (told, &self.forge) {
                (Some(told), _) => Some(told),
                (None, Some(forge)) => forge.merged_head(codebase, environment).await,
                (None, None) => None,
            };
            if merged.is_some() && merged.as_ref() == tips.commit_at(&environment.branch.full_ref()) {
                found.insert(environment.id, MergeVerdict::Merged { by: MergeMethod::Forge, ahead, behind });
            }
        }
    }
}

impl MergeStatus {
    pub fn is_merged(&self) -> bool {
        self.verdict.merged_by().is_some()
    }
}

fn is_pull_request(environment: &Environment) -> bool {
    matches!(environment.work.work_kind(), WorkKind::Pr | WorkKind::Review)
}

fn not_asked() -> MergeVerdict {
    unknown_verdict(&"it was not asked")
}

fn unknown_verdict(why: &dyn std::fmt::Display) -> MergeVerdict {
    MergeVerdict::Unknown { why: why.to_string() }
}

fn unknown_statuses(environments: &[Environment], error: &GitError) -> HashMap<EnvironmentId, MergeStatus> {
    let merge_status = |environment: &Environment| MergeStatus {
        verdict: unknown_verdict(&error),
        head: None,
        checked_out: None,
        last_active: environment.last_activity_at,
        stale: false,
    };
    environments.iter().map(|environment| (environment.id, merge_status(environment))).collect()
}

/// Returns the subject to judge for an environment with this checkout, or the reason why it cannot be judged.
fn merge_subject(
    tips: &BranchTips,
    worked_on: &HashMap<String, bool>,
    environment: &Environment,
    checked_out: &CheckedOut,
) -> Result<VerdictSubject, &'static str> {
    let (head, worked_on) = match checked_out {
        // A person or an agent checked this commit out.
        CheckedOut::Detached(at) => (at.clone(), true),
        CheckedOut::Branch(branch) => {
            let name = branch.full_ref();
            let head = tips.commit_at(&name).ok_or("its branch is not there any more")?.clone();
            (head, *worked_on.get(&name).ok_or("the reflog of its branch cannot be read")?)
        }
    };
    // The commits of a pull request were made elsewhere.
    let had_own = worked_on || (is_pull_request(environment) && environment.head_sha != environment.base_sha);
    let bases = environment.base_ref.as_deref().map(|base| tips.base_tips(base)).unwrap_or_default();
    Ok(VerdictSubject { head, base_sha: environment.base_sha.clone(), bases, had_own })
}

fn key_of(subject: &VerdictSubject) -> (String, String) {
    let bases: Vec<&str> = subject.bases.iter().map(CommitSha::as_str).collect();
    let began = subject.base_sha.as_ref().map_or("", CommitSha::as_str);
    (subject.head.to_string(), format!("{began} {} {}", subject.had_own, bases.join(" ")))
}

/// Returns the time of the last change to a file of a worktree; `None` if it cannot be determined.
pub(crate) fn last_change(path: &Path) -> Option<Moment> {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut open = vec![path.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).ok()? {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok()?;
            if meta.is_dir() {
                open.push(entry.path());
            } else if entry.file_name() != ".git" {
                newest = newest.max(meta.modified().ok()?);
            }
        }
    }
    let seconds = newest.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    Moment::from_unix(i64::try_from(seconds).ok()?)
}
