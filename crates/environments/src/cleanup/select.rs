//! What a clean-up takes: the choice alone.

use std::fmt;

use grove_model::{Environment, MergeMethod, Moment, Status};
use jiff::SignedDuration;

use crate::inspect::merge_status::Standing;

/// What somebody wants cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Merged,
    Stale,
    /// As the scheduler does: merged, stale, gone from the disk.
    Everything,
}

/// What a clean-up goes by.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub scope: Scope,
    /// The clock can be trusted.
    pub steady: bool,
    /// `None` for an explicit command, which may take what was touched a moment ago.
    pub grace: Option<Grace>,
}

/// The time for which an environment is left alone after it was created, spoken to or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    pub now: Moment,
    pub length: SignedDuration,
}

impl Grace {
    /// Tells whether something that happened then protects an environment. A moment that lies ahead does
    /// too: one of two clocks is wrong, so the age is not known.
    pub fn protects(&self, then: Moment) -> bool {
        self.now.since(then) < self.length
    }
}

/// What becomes of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is none of this clean-up's business.
    Leave,
    Remove(Why),
    /// It would go, but for its age.
    Spare(Spared),
}

/// Why an environment is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Merged(MergeMethod),
    Stale,
    /// Its folder is not there any more, but the folder above it is.
    Gone,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Merged(method) => write!(f, "merged ({method})"),
            Why::Stale => f.write_str("stale"),
            Why::Gone => f.write_str("its folder is gone"),
        }
    }
}

/// Why an environment that would go stays for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spared {
    Recent(SignedDuration),
    ClockJumped,
    /// Another branch than the recorded one is checked out, or none.
    OtherBranch,
    /// Its files do not tell when they were changed.
    Unreadable,
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spared::Recent(grace) => write!(f, "It was created, spoken to or changed less than {grace:#} ago."),
            Spared::OtherBranch => f.write_str("It is on another branch than the one that was recorded for it."),
            Spared::ClockJumped => f.write_str("The clock jumped since the last clean-up, so its age is not known."),
            Spared::Unreadable => f.write_str("It is not known when its files were last changed."),
        }
    }
}

/// Chooses what becomes of an environment. `is_gone`: its folder is not there any more, but the folder
/// above it is. What somebody else made, what is on its way and what has failed are left for people.
/// Files that were changed lately are the caller's to look for, of what is to be removed.
pub fn select(environment: &Environment, is_gone: bool, standing: &Standing, rules: &Rules) -> Choice {
    if environment.status != Status::Active || environment.is_adopted() {
        return Choice::Leave;
    }
    if rules.scope == Scope::Everything && is_gone {
        return Choice::Remove(Why::Gone);
    }
    let wants = |wanted: Scope| rules.scope == wanted || rules.scope == Scope::Everything;
    let why = match standing.verdict.merged_by() {
        Some(method) if wants(Scope::Merged) => Why::Merged(method),
        _ if wants(Scope::Stale) && standing.stale && rules.steady => Why::Stale,
        _ => return Choice::Leave,
    };
    if standing.checked_out.is_some() {
        return Choice::Spare(Spared::OtherBranch);
    }
    match rules.grace {
        Some(_) if !rules.steady => Choice::Spare(Spared::ClockJumped),
        Some(grace) if grace.protects(environment.created_at.max(standing.last_active)) => {
            Choice::Spare(Spared::Recent(grace.length))
        }
        _ => Choice::Remove(why),
    }
}

#[cfg(test)]
mod tests {
    use grove_git::verdict::Verdict;
    use grove_model::{AdoptedFrom, Kind};

    use super::*;
    use crate::create::decide::tests::environment;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn ago(now: Moment, minutes: i64) -> Moment {
        now.plus(SignedDuration::from_mins(-minutes))
    }

    /// An environment and how it stands: made and last active so many minutes ago.
    fn made(now: Moment, created: i64, active: i64, verdict: Verdict, stale: bool) -> (Environment, Standing) {
        let environment = Environment { created_at: ago(now, created), ..environment(Kind::Pr, "7") };
        (environment, Standing { verdict, head: None, checked_out: None, last_active: ago(now, active), stale })
    }

    fn merged() -> Verdict {
        Verdict::Merged { by: MergeMethod::Ancestor, ahead: 0, behind: 1 }
    }

    fn unmerged() -> Verdict {
        Verdict::Unmerged { ahead: 1, behind: 0 }
    }

    const MERGED: Choice = Choice::Remove(Why::Merged(MergeMethod::Ancestor));
    const STALE: Choice = Choice::Remove(Why::Stale);
    const GONE: Choice = Choice::Remove(Why::Gone);
    const RECENT: Choice = Choice::Spare(Spared::Recent(HOUR));

    #[test]
    fn what_was_created_or_used_within_the_grace_is_spared() {
        let now = Moment::now();
        let rules = Rules { scope: Scope::Everything, steady: true, grace: Some(Grace { now, length: HOUR }) };
        for (created, active, expected) in [
            (1, 1, RECENT),
            (59, 600, RECENT),
            (600, 59, RECENT),
            (61, 61, MERGED),
            (60, 60, MERGED),
            // Made or committed by a clock that goes ahead of ours.
            (600, -600, RECENT),
            (-600, 600, RECENT),
        ] {
            let (environment, standing) = made(now, created, active, merged(), false);
            assert_eq!(select(&environment, false, &standing, &rules), expected, "{created} {active}");
            // What is not there any more is ended however young it is.
            assert_eq!(select(&environment, true, &standing, &rules), GONE, "{created} {active}");
            // An explicit command takes it.
            let asked = Rules { scope: Scope::Merged, steady: true, grace: None };
            assert_eq!(select(&environment, false, &standing, &asked), MERGED);
        }
    }

    #[test]
    fn a_clock_that_jumped_makes_nothing_removable() {
        let now = Moment::now();
        let rules = Rules { scope: Scope::Everything, steady: false, grace: Some(Grace { now, length: HOUR }) };
        let (environment, standing) = made(now, 600, 600, merged(), false);
        assert_eq!(select(&environment, false, &standing, &rules), Choice::Spare(Spared::ClockJumped));
        assert_eq!(select(&environment, true, &standing, &rules), GONE);
        let (environment, standing) = made(now, 600_000, 600_000, unmerged(), true);
        assert_eq!(select(&environment, false, &standing, &rules), Choice::Leave);
        // Whether it is merged needs no clock where nobody asks for its age.
        let (environment, standing) = made(now, 600, 600, merged(), true);
        let asked = Rules { scope: Scope::Merged, steady: false, grace: None };
        assert_eq!(select(&environment, false, &standing, &asked), MERGED);
    }

    #[test]
    fn a_grace_longer_than_staleness_spares_what_is_stale() {
        let now = Moment::now();
        let grace = |hours| Some(Grace { now, length: SignedDuration::from_hours(hours) });
        let (environment, standing) = made(now, 60_000, 60 * 25, unmerged(), true);
        let rules = |hours| Rules { scope: Scope::Stale, steady: true, grace: grace(hours) };
        assert_eq!(select(&environment, false, &standing, &rules(1)), STALE);
        let spared = Choice::Spare(Spared::Recent(SignedDuration::from_hours(48)));
        assert_eq!(select(&environment, false, &standing, &rules(48)), spared);
    }

    #[test]
    fn only_what_is_in_scope_and_ours_is_chosen() {
        let now = Moment::now();
        let rules = |scope| Rules { scope, steady: true, grace: None };
        let everything = [Scope::Merged, Scope::Stale, Scope::Everything];
        let chosen = |environment: &Environment, standing: &Standing| {
            everything.map(|scope| select(environment, false, standing, &rules(scope)))
        };
        let (environment, standing) = made(now, 600, 600, merged(), false);
        assert_eq!(chosen(&environment, &standing), [MERGED, Choice::Leave, MERGED]);
        let (environment, standing) = made(now, 600, 600, unmerged(), true);
        assert_eq!(chosen(&environment, &standing), [Choice::Leave, STALE, STALE]);
        let (environment, standing) = made(now, 600, 600, merged(), true);
        assert_eq!(chosen(&environment, &standing), [MERGED, STALE, MERGED]);
        assert_eq!(select(&environment, true, &standing, &rules(Scope::Merged)), MERGED, "a command ends no record");
        let (fresh, standing) = made(now, 600, 600, Verdict::Fresh { behind: 0 }, false);
        assert_eq!(chosen(&fresh, &standing), [Choice::Leave; 3]);
        let (unknown, standing) = made(now, 600, 600, Verdict::Unknown { why: "git failed".to_owned() }, false);
        assert_eq!(chosen(&unknown, &standing), [Choice::Leave; 3]);
        let mut adopted = environment.clone();
        adopted.metadata.adopted_from = Some(AdoptedFrom::Path);
        let asleep = Environment { status: Status::Hibernated, ..environment };
        let (_, standing) = made(now, 600, 600, merged(), true);
        for environment in [adopted, asleep] {
            assert_eq!(chosen(&environment, &standing), [Choice::Leave; 3]);
            assert_eq!(select(&environment, true, &standing, &rules(Scope::Everything)), Choice::Leave);
        }
    }

    #[test]
    fn the_reason_is_one_sentence() {
        assert_eq!(
            Spared::Recent(SignedDuration::from_mins(90)).to_string(),
            "It was created, spoken to or changed less than 1h 30m ago."
        );
    }
}
