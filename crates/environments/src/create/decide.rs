//! Decides which environment a piece of work belongs in, and does nothing else.
//!
//! [`decide_environment`] takes facts and returns an [`EnvironmentDecision`] with every candidate and its
//! outcome. It does no I/O, so that each rule can be tested by itself. The order is that of the contract: the
//! conversation's own environment, that of the same work, that of a linked work, a worktree that another tool
//! or a person made, a new one.

use std::path::PathBuf;

use grove_model::{AdoptedFrom, Environment, Status};
use serde::{Deserialize, Serialize};

use crate::provider::FoundEnvironment;

/// The reason why an environment is a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkRelation {
    /// The conversation works there already.
    Bound,
    SameWork,
    LinkedIssue(u64),
    LinkedPr(u64),
}

/// The state of an environment's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreePresence {
    There,
    Gone,
    NotMounted,
    /// It is on another machine.
    Elsewhere(String),
    /// It could not be determined.
    Unknown(String),
}

/// Tells whether an environment contains a pull request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadPresence {
    /// The work is not a pull request, or its head is not known: nothing to compare.
    NotKnown,
    There,
    NotThere,
}

#[derive(Clone, Debug)]
pub struct EnvironmentCandidate {
    pub relation: WorkRelation,
    pub environment: Environment,
    pub presence: WorktreePresence,
    pub head: HeadPresence,
}

/// A worktree that another tool or a person made and that fits.
#[derive(Clone, Debug)]
pub struct ForeignCandidate {
    pub found: FoundEnvironment,
    pub from: AdoptedFrom,
    /// The reason why it cannot be adopted, if there is one.
    pub flaw: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct DecisionFacts {
    /// The work is a pull request from a fork: it shares nothing and adopts nothing.
    pub fork: bool,
    /// The candidates in the order in which they are considered.
    pub candidates: Vec<EnvironmentCandidate>,
    pub strangers: Vec<ForeignCandidate>,
}

/// One candidate and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionStep {
    pub candidate: String,
    pub outcome: String,
    pub reason: String,
}

#[derive(Debug)]
pub enum EnvironmentChoice {
    /// The environment that the conversation or the work already has.
    Use(Box<Environment>),
    /// Another process is creating it.
    Wait(Box<Environment>),
    /// The environment of a linked issue or pull request.
    Share(Box<Environment>, WorkRelation),
    Adopt(Box<ForeignCandidate>),
    Create,
    /// It hibernates, and wakes first.
    Wake(Box<Environment>),
    /// Its disk is not mounted.
    NotMounted(PathBuf),
    /// The state of an environment that would have to be used is unknown.
    Unknown(Box<Environment>, String),
}

#[derive(Debug)]
pub struct EnvironmentDecision {
    pub choice: EnvironmentChoice,
    pub steps: Vec<DecisionStep>,
    /// Records whose directory is gone.
    pub gone: Vec<Environment>,
    /// Linked environments that do not have the pull request's head.
    pub without_head: Vec<WorkRelation>,
}

pub fn decide_environment(facts: DecisionFacts) -> EnvironmentDecision {
    let mut decision = EnvironmentDecision {
        choice: EnvironmentChoice::Create,
        steps: Vec::new(),
        gone: Vec::new(),
        without_head: Vec::new(),
    };
    for candidate in facts.candidates {
        let name = describe_candidate(&candidate);
        let mut step = |outcome: &str, reason: String| {
            decision.steps.push(DecisionStep { candidate: name.clone(), outcome: outcome.to_owned(), reason });
        };
        let own = matches!(candidate.relation, WorkRelation::Bound | WorkRelation::SameWork);
        if !own && facts.fork {
            step("skipped", "a pull request from a fork never shares".to_owned());
            continue;
        }
        let environment = Box::new(candidate.environment);
        if matches!(environment.status, Status::Creating | Status::Removing) {
            if own {
                let what = if environment.status == Status::Creating { "making" } else { "removing" };
                step("awaited", format!("another process is {what} it"));
                decision.choice = EnvironmentChoice::Wait(environment);
                return decision;
            }
            step("skipped", format!("it is {}", environment.status));
            continue;
        }
        if environment.status == Status::Hibernated {
            step("woken", "it hibernates".to_owned());
            decision.choice = EnvironmentChoice::Wake(environment);
            return decision;
        }
        match candidate.presence {
            WorktreePresence::Gone => {
                step("gone", "its folder is not there any more".to_owned());
                decision.gone.push(*environment);
                continue;
            }
            WorktreePresence::NotMounted => {
                step("blocked", "its disk seems not to be mounted".to_owned());
                decision.choice = EnvironmentChoice::NotMounted(environment.path);
                return decision;
            }
            WorktreePresence::Elsewhere(node) if !own => {
                step("skipped", format!("it is on another machine ({node})"));
                continue;
            }
            WorktreePresence::Unknown(why) if own => {
                step("blocked", format!("it could not be looked at: {why}"));
                decision.choice = EnvironmentChoice::Unknown(environment, why);
                return decision;
            }
            WorktreePresence::Unknown(why) => {
                step("skipped", format!("it could not be looked at: {why}"));
                continue;
            }
            WorktreePresence::There | WorktreePresence::Elsewhere(_) => {}
        }
        if own {
            step(
                "chosen",
                if candidate.relation == WorkRelation::Bound {
                    "the conversation works there"
                } else {
                    "it is this work's"
                }
                .to_owned(),
            );
            decision.choice = EnvironmentChoice::Use(environment);
            return decision;
        }
        if environment.status != Status::Active {
            step("skipped", format!("it is {}", environment.status));
            continue;
        }
        match candidate.head {
            HeadPresence::NotThere => {
                step("skipped", "the pull request's head is not there".to_owned());
                decision.without_head.push(candidate.relation);
            }
            head => {
                let reason = if head == HeadPresence::There {
                    "it is linked and has the pull request's head"
                } else {
                    "it is linked"
                };
                step("chosen", reason.to_owned());
                decision.choice = EnvironmentChoice::Share(environment, candidate.relation);
                return decision;
            }
        }
    }
    for stranger in facts.strangers {
        let candidate = format!("worktree {}", stranger.found.path.display());
        let (outcome, reason) = match (&stranger.flaw, facts.fork) {
            (_, true) => ("skipped", "a pull request from a fork never adopts".to_owned()),
            (Some(flaw), _) => ("skipped", flaw.clone()),
            (None, false) => {
                ("chosen", format!("made outside of Grovekeeper; found by its {}", adoption_source_text(stranger.from)))
            }
        };
        decision.steps.push(DecisionStep { candidate, outcome: outcome.to_owned(), reason });
        if outcome == "chosen" {
            decision.choice = EnvironmentChoice::Adopt(Box::new(stranger));
            return decision;
        }
    }
    decision.steps.push(DecisionStep {
        candidate: "a new worktree".to_owned(),
        outcome: "chosen".to_owned(),
        reason: "nothing else fits".to_owned(),
    });
    decision
}

fn adoption_source_text(from: AdoptedFrom) -> &'static str {
    match from {
        AdoptedFrom::Path => "path",
        AdoptedFrom::Branch => "branch",
        AdoptedFrom::Skill => "entry in the skill's registry",
        AdoptedFrom::Automaker => "Automaker metadata",
    }
}

fn describe_candidate(candidate: &EnvironmentCandidate) -> String {
    let environment = &candidate.environment;
    let why = match &candidate.relation {
        WorkRelation::Bound => "the conversation's".to_owned(),
        WorkRelation::SameWork => environment.work.to_string(),
        WorkRelation::LinkedIssue(number) => format!("linked issue #{number}"),
        WorkRelation::LinkedPr(number) => format!("linked pr #{number}"),
    };
    format!("{why}: `{}` at {}", environment.branch, environment.path.display())
}

#[cfg(test)]
pub(crate) mod tests {
    use grove_model::{BranchName, CodebaseId, EnvironmentId, EnvironmentMetadata, Moment, Nonce, WorkKey, WorkKind};

    use super::*;

    pub(crate) fn test_environment(kind: WorkKind, id: &str) -> Environment {
        let now = Moment::now();
        Environment {
            id: EnvironmentId::new(),
            codebase_id: CodebaseId::new(),
            work: WorkKey::new(kind, id).unwrap(),
            provider: "worktree".into(),
            path: format!("/w/{id}").into(),
            branch: BranchName::parse(&format!("{kind}-{id}")).unwrap(),
            status: Status::Active,
            error: None,
            base_ref: None,
            base_sha: None,
            head_sha: None,
            created_by_platform: None,
            created_by_user: None,
            created_at: now,
            last_activity_at: now,
            size_bytes: None,
            size_at: None,
            metadata: EnvironmentMetadata::default(),
            related_issues: vec![],
            related_prs: vec![],
            node: "here".into(),
            nonce: Nonce::new(),
            owner: None,
            lease_until: None,
        }
    }

    fn test_candidate(relation: WorkRelation, presence: WorktreePresence, head: HeadPresence) -> EnvironmentCandidate {
        EnvironmentCandidate { relation, environment: test_environment(WorkKind::Issue, "42"), presence, head }
    }

    fn test_foreign_worktree(flaw: Option<&str>) -> ForeignCandidate {
        let found = FoundEnvironment { path: "/theirs".into(), branch: Some("feature".into()), head: None };
        ForeignCandidate { found, from: AdoptedFrom::Branch, flaw: flaw.map(str::to_owned) }
    }

    fn decide_and_summarise(
        fork: bool,
        candidates: Vec<EnvironmentCandidate>,
        strangers: Vec<ForeignCandidate>,
    ) -> (String, Vec<String>) {
        let decision = decide_environment(DecisionFacts { fork, candidates, strangers });
        let choice = format!("{:?}", decision.choice);
        let choice = choice.split(['(', ' ']).next().unwrap_or_default().to_owned();
        (choice, decision.steps.into_iter().map(|step| format!("{}: {}", step.outcome, step.reason)).collect())
    }

    #[test]
    fn the_first_that_holds_wins() {
        use WorktreePresence::*;
        let bound = || test_candidate(WorkRelation::Bound, There, HeadPresence::NotKnown);
        let same = || test_candidate(WorkRelation::SameWork, There, HeadPresence::NotKnown);
        let linked = || test_candidate(WorkRelation::LinkedIssue(42), There, HeadPresence::There);
        assert_eq!(
            decide_and_summarise(false, vec![bound(), same(), linked()], vec![test_foreign_worktree(None)]).0,
            "Use"
        );
        assert_eq!(decide_and_summarise(false, vec![linked()], vec![test_foreign_worktree(None)]).0, "Share");
        assert_eq!(
            decide_and_summarise(false, vec![], vec![test_foreign_worktree(Some("x")), test_foreign_worktree(None)]).0,
            "Adopt"
        );
        assert_eq!(
            decide_and_summarise(false, vec![], vec![]),
            ("Create".into(), vec!["chosen: nothing else fits".into()])
        );
    }

    #[test]
    fn what_is_gone_is_passed_over_and_what_is_away_blocks() {
        let gone = test_candidate(WorkRelation::SameWork, WorktreePresence::Gone, HeadPresence::NotKnown);
        let decision = decide_environment(DecisionFacts { candidates: vec![gone], ..DecisionFacts::default() });
        assert!(matches!(decision.choice, EnvironmentChoice::Create));
        assert_eq!((decision.gone.len(), decision.steps.len()), (1, 2));
        let away = || test_candidate(WorkRelation::Bound, WorktreePresence::NotMounted, HeadPresence::NotKnown);
        assert_eq!(decide_and_summarise(false, vec![away()], vec![test_foreign_worktree(None)]).0, "NotMounted");
        let unknown = test_candidate(
            WorkRelation::SameWork,
            WorktreePresence::Unknown("git is silent".into()),
            HeadPresence::NotKnown,
        );
        assert_eq!(decide_and_summarise(false, vec![unknown], vec![]).0, "Unknown");
    }

    #[test]
    fn a_pull_request_shares_only_where_its_head_is() {
        let without = test_candidate(WorkRelation::LinkedIssue(42), WorktreePresence::There, HeadPresence::NotThere);
        let with = test_candidate(WorkRelation::LinkedIssue(7), WorktreePresence::There, HeadPresence::There);
        let decision =
            decide_environment(DecisionFacts { candidates: vec![without, with], ..DecisionFacts::default() });
        assert!(matches!(decision.choice, EnvironmentChoice::Share(_, WorkRelation::LinkedIssue(7))));
        assert_eq!(decision.without_head, [WorkRelation::LinkedIssue(42)]);
    }

    #[test]
    fn a_fork_shares_nothing_and_adopts_nothing_but_keeps_its_own() {
        let linked = || test_candidate(WorkRelation::LinkedIssue(42), WorktreePresence::There, HeadPresence::There);
        assert_eq!(decide_and_summarise(true, vec![linked()], vec![test_foreign_worktree(None)]).0, "Create");
        let own = test_candidate(WorkRelation::SameWork, WorktreePresence::There, HeadPresence::NotKnown);
        assert_eq!(decide_and_summarise(true, vec![own, linked()], vec![]).0, "Use");
    }

    #[test]
    fn an_unfinished_one_is_awaited_only_if_it_is_ours() {
        let mut own = test_candidate(WorkRelation::SameWork, WorktreePresence::Gone, HeadPresence::NotKnown);
        own.environment.status = Status::Creating;
        assert_eq!(decide_and_summarise(false, vec![own], vec![]).0, "Wait");
        let mut linked = test_candidate(WorkRelation::LinkedPr(3), WorktreePresence::Gone, HeadPresence::There);
        linked.environment.status = Status::Creating;
        assert_eq!(decide_and_summarise(false, vec![linked], vec![]).0, "Create");
    }
}
