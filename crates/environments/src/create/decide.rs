//! Which environment a work belongs in: the choice alone.
//!
//! [`decide`] takes facts and gives a [`Decision`] with every candidate that was looked at and what
//! became of it. It asks nobody anything, so that each rule can be tried out by itself. The order
//! is the contract's: the conversation's own, the same work's, a linked one's, one that somebody
//! else made, a new one.

use std::path::PathBuf;

use grove_model::{AdoptedFrom, Environment, Status};
use serde::{Deserialize, Serialize};

use crate::provider::Found;

/// Why an environment was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The conversation works there already.
    Bound,
    SameWork,
    LinkedIssue(u64),
    LinkedPr(u64),
}

/// What is at an environment's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Gone,
    NotMounted,
    /// On another machine.
    Elsewhere(String),
    /// It could not be found out.
    Unknown(String),
}

/// Whether a pull request's head is in an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Not a pull request, or its head is not known: nothing to compare.
    NotKnown,
    There,
    NotThere,
}

#[derive(Clone, Debug)]
pub struct Candidate {
    pub relation: Relation,
    pub environment: Environment,
    pub presence: Presence,
    pub head: Head,
}

/// A worktree that somebody else made and that fits.
#[derive(Clone, Debug)]
pub struct Stranger {
    pub found: Found,
    pub from: AdoptedFrom,
    /// Why it cannot be taken, if so.
    pub flaw: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The work is a pull request from a fork: it shares nothing and adopts nothing.
    pub fork: bool,
    /// In the order in which they are to be considered.
    pub candidates: Vec<Candidate>,
    pub strangers: Vec<Stranger>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub candidate: String,
    pub outcome: String,
    pub reason: String,
}

#[derive(Debug)]
pub enum Choice {
    /// The environment that the conversation or the work has.
    Use(Box<Environment>),
    /// Somebody is making it.
    Wait(Box<Environment>),
    /// That of a linked issue or pull request.
    Share(Box<Environment>, Relation),
    Adopt(Box<Stranger>),
    Create,
    /// It hibernates, and comes back first.
    Wake(Box<Environment>),
    /// Its disk is away.
    NotMounted(PathBuf),
    /// Nothing can be said of an environment that would have to be used.
    Unknown(Box<Environment>, String),
}

#[derive(Debug)]
pub struct Decision {
    pub choice: Choice,
    pub steps: Vec<Step>,
    /// Records whose directory is gone.
    pub gone: Vec<Environment>,
    /// Linked environments that do not have the pull request's head.
    pub without_head: Vec<Relation>,
}

pub fn decide(facts: Facts) -> Decision {
    let mut decision =
        Decision { choice: Choice::Create, steps: Vec::new(), gone: Vec::new(), without_head: Vec::new() };
    for candidate in facts.candidates {
        let name = describe(&candidate);
        let mut step = |outcome: &str, reason: String| {
            decision.steps.push(Step { candidate: name.clone(), outcome: outcome.to_owned(), reason });
        };
        let own = matches!(candidate.relation, Relation::Bound | Relation::SameWork);
        if !own && facts.fork {
            step("skipped", "a pull request from a fork never shares".to_owned());
            continue;
        }
        let environment = Box::new(candidate.environment);
        if matches!(environment.status, Status::Creating | Status::Removing) {
            if own {
                let what = if environment.status == Status::Creating { "making" } else { "removing" };
                step("awaited", format!("another process is {what} it"));
                decision.choice = Choice::Wait(environment);
                return decision;
            }
            step("skipped", format!("it is {}", environment.status));
            continue;
        }
        if environment.status == Status::Hibernated {
            step("woken", "it hibernates".to_owned());
            decision.choice = Choice::Wake(environment);
            return decision;
        }
        match candidate.presence {
            Presence::Gone => {
                step("gone", "its folder is not there any more".to_owned());
                decision.gone.push(*environment);
                continue;
            }
            Presence::NotMounted => {
                step("blocked", "its disk seems not to be mounted".to_owned());
                decision.choice = Choice::NotMounted(environment.path);
                return decision;
            }
            Presence::Elsewhere(node) if !own => {
                step("skipped", format!("it is on another machine ({node})"));
                continue;
            }
            Presence::Unknown(why) if own => {
                step("blocked", format!("it could not be looked at: {why}"));
                decision.choice = Choice::Unknown(environment, why);
                return decision;
            }
            Presence::Unknown(why) => {
                step("skipped", format!("it could not be looked at: {why}"));
                continue;
            }
            Presence::There | Presence::Elsewhere(_) => {}
        }
        if own {
            step(
                "chosen",
                if candidate.relation == Relation::Bound {
                    "the conversation works there"
                } else {
                    "it is this work's"
                }
                .to_owned(),
            );
            decision.choice = Choice::Use(environment);
            return decision;
        }
        if environment.status != Status::Active {
            step("skipped", format!("it is {}", environment.status));
            continue;
        }
        match candidate.head {
            Head::NotThere => {
                step("skipped", "the pull request's head is not there".to_owned());
                decision.without_head.push(candidate.relation);
            }
            head => {
                let reason =
                    if head == Head::There { "it is linked and has the pull request's head" } else { "it is linked" };
                step("chosen", reason.to_owned());
                decision.choice = Choice::Share(environment, candidate.relation);
                return decision;
            }
        }
    }
    for stranger in facts.strangers {
        let candidate = format!("worktree {}", stranger.found.path.display());
        let (outcome, reason) = match (&stranger.flaw, facts.fork) {
            (_, true) => ("skipped", "a pull request from a fork never adopts".to_owned()),
            (Some(flaw), _) => ("skipped", flaw.clone()),
            (None, false) => ("chosen", format!("somebody else made it; found by its {}", way(stranger.from))),
        };
        decision.steps.push(Step { candidate, outcome: outcome.to_owned(), reason });
        if outcome == "chosen" {
            decision.choice = Choice::Adopt(Box::new(stranger));
            return decision;
        }
    }
    decision.steps.push(Step {
        candidate: "a new worktree".to_owned(),
        outcome: "chosen".to_owned(),
        reason: "nothing else fits".to_owned(),
    });
    decision
}

fn way(from: AdoptedFrom) -> &'static str {
    match from {
        AdoptedFrom::Path => "path",
        AdoptedFrom::Branch => "branch",
        AdoptedFrom::Skill => "entry in the skill's registry",
        AdoptedFrom::Automaker => "Automaker metadata",
    }
}

fn describe(candidate: &Candidate) -> String {
    let environment = &candidate.environment;
    let why = match &candidate.relation {
        Relation::Bound => "the conversation's".to_owned(),
        Relation::SameWork => environment.work.to_string(),
        Relation::LinkedIssue(number) => format!("linked issue #{number}"),
        Relation::LinkedPr(number) => format!("linked pr #{number}"),
    };
    format!("{why}: `{}` at {}", environment.branch, environment.path.display())
}

#[cfg(test)]
pub(crate) mod tests {
    use grove_model::{BranchName, CodebaseId, EnvironmentId, EnvironmentMetadata, Kind, Moment, Nonce, WorkKey};

    use super::*;

    pub(crate) fn environment(kind: Kind, id: &str) -> Environment {
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

    fn candidate(relation: Relation, presence: Presence, head: Head) -> Candidate {
        Candidate { relation, environment: environment(Kind::Issue, "42"), presence, head }
    }

    fn stranger(flaw: Option<&str>) -> Stranger {
        let found = Found { path: "/theirs".into(), branch: Some("feature".into()), head: None };
        Stranger { found, from: AdoptedFrom::Branch, flaw: flaw.map(str::to_owned) }
    }

    fn choose(fork: bool, candidates: Vec<Candidate>, strangers: Vec<Stranger>) -> (String, Vec<String>) {
        let decision = decide(Facts { fork, candidates, strangers });
        let choice = format!("{:?}", decision.choice);
        let choice = choice.split(['(', ' ']).next().unwrap_or_default().to_owned();
        (choice, decision.steps.into_iter().map(|step| format!("{}: {}", step.outcome, step.reason)).collect())
    }

    #[test]
    fn the_first_that_holds_wins() {
        use Presence::*;
        let bound = || candidate(Relation::Bound, There, Head::NotKnown);
        let same = || candidate(Relation::SameWork, There, Head::NotKnown);
        let linked = || candidate(Relation::LinkedIssue(42), There, Head::There);
        assert_eq!(choose(false, vec![bound(), same(), linked()], vec![stranger(None)]).0, "Use");
        assert_eq!(choose(false, vec![linked()], vec![stranger(None)]).0, "Share");
        assert_eq!(choose(false, vec![], vec![stranger(Some("x")), stranger(None)]).0, "Adopt");
        assert_eq!(choose(false, vec![], vec![]), ("Create".into(), vec!["chosen: nothing else fits".into()]));
    }

    #[test]
    fn what_is_gone_is_passed_over_and_what_is_away_blocks() {
        let gone = candidate(Relation::SameWork, Presence::Gone, Head::NotKnown);
        let decision = decide(Facts { candidates: vec![gone], ..Facts::default() });
        assert!(matches!(decision.choice, Choice::Create));
        assert_eq!((decision.gone.len(), decision.steps.len()), (1, 2));
        let away = || candidate(Relation::Bound, Presence::NotMounted, Head::NotKnown);
        assert_eq!(choose(false, vec![away()], vec![stranger(None)]).0, "NotMounted");
        let unknown = candidate(Relation::SameWork, Presence::Unknown("git is silent".into()), Head::NotKnown);
        assert_eq!(choose(false, vec![unknown], vec![]).0, "Unknown");
    }

    #[test]
    fn a_pull_request_shares_only_where_its_head_is() {
        let without = candidate(Relation::LinkedIssue(42), Presence::There, Head::NotThere);
        let with = candidate(Relation::LinkedIssue(7), Presence::There, Head::There);
        let decision = decide(Facts { candidates: vec![without, with], ..Facts::default() });
        assert!(matches!(decision.choice, Choice::Share(_, Relation::LinkedIssue(7))));
        assert_eq!(decision.without_head, [Relation::LinkedIssue(42)]);
    }

    #[test]
    fn a_fork_shares_nothing_and_adopts_nothing_but_keeps_its_own() {
        let linked = || candidate(Relation::LinkedIssue(42), Presence::There, Head::There);
        assert_eq!(choose(true, vec![linked()], vec![stranger(None)]).0, "Create");
        let own = candidate(Relation::SameWork, Presence::There, Head::NotKnown);
        assert_eq!(choose(true, vec![own, linked()], vec![]).0, "Use");
    }

    #[test]
    fn an_unfinished_one_is_awaited_only_if_it_is_ours() {
        let mut own = candidate(Relation::SameWork, Presence::Gone, Head::NotKnown);
        own.environment.status = Status::Creating;
        assert_eq!(choose(false, vec![own], vec![]).0, "Wait");
        let mut linked = candidate(Relation::LinkedPr(3), Presence::Gone, Head::There);
        linked.environment.status = Status::Creating;
        assert_eq!(choose(false, vec![linked], vec![]).0, "Create");
    }
}
