//! Selects the environments that a clean-up removes, and does nothing else.

use std::fmt;

use grove_model::{Environment, MergeMethod, Moment, Status};
use jiff::SignedDuration;

use crate::inspect::merge_status::MergeStatus;

/// The scope of a clean-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupScope {
    Merged,
    Stale,
    /// The scope of the scheduler: merged, stale, gone from the disk.
    Everything,
}

/// The rules of a clean-up.
#[derive(Clone, Copy, Debug)]
pub struct CleanupRules {
    pub scope: CleanupScope,
    /// The clock can be trusted.
    pub steady: bool,
    /// `None` for an explicit command, which may remove an environment that was just touched.
    pub grace: Option<GracePeriod>,
}

/// The time for which an environment is protected after it was created, got a message or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriod {
    pub now: Moment,
    pub length: SignedDuration,
}

impl GracePeriod {
    /// Tells whether an event at `then` protects an environment. A moment in the future does too: one of two
    /// clocks is wrong, so the age is unknown.
    pub fn protects_since(&self, then: Moment) -> bool {
        self.now.duration_since(then) < self.length
    }
}

/// The action for an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupChoice {
    /// The environment is out of this clean-up's scope.
    Leave,
    Remove(CleanupReason),
    /// The environment would be removed, but it is too young.
    Spare(SparedReason),
}

/// The reason why an environment is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupReason {
    Merged(MergeMethod),
    Stale,
    /// Its folder no longer exists, but the folder above it does.
    Gone,
}

impl fmt::Display for CleanupReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CleanupReason::Merged(method) => write!(f, "merged ({method})"),
            CleanupReason::Stale => f.write_str("stale"),
            CleanupReason::Gone => f.write_str("its folder is gone"),
        }
    }
}

/// The reason why an environment that would be removed stays for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparedReason {
    Recent(SignedDuration),
    ClockJumped,
    /// Another branch than the recorded one is checked out, or none.
    OtherBranch,
    /// The time of the last change cannot be read from its files.
    Unreadable,
}

impl fmt::Display for SparedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SparedReason::Recent(grace) => write!(f, "It was created, spoken to or changed less than {grace:#} ago."),
            SparedReason::OtherBranch => f.write_str("It is on another branch than the one that was recorded for it."),
            SparedReason::ClockJumped => {
                f.write_str("The clock jumped since the last clean-up, so its age is not known.")
            }
            SparedReason::Unreadable => f.write_str("It is not known when its files were last changed."),
        }
    }
}

/// Chooses the action for an environment. `is_gone`: its folder no longer exists, but the folder above it
/// does. Environments that another tool or a person made, that are in a transition or that have failed are
/// left to people. The caller looks for files that were changed lately, in environments that are to be
/// removed.
pub fn choose_cleanup_action(
    environment: &Environment,
    is_gone: bool,
    merge_status: &MergeStatus,
    rules: &CleanupRules,
) -> CleanupChoice {
    if environment.status != Status::Active || environment.is_adopted() {
        return CleanupChoice::Leave;
    }
    if rules.scope == CleanupScope::Everything && is_gone {
        return CleanupChoice::Remove(CleanupReason::Gone);
    }
    let wants = |wanted: CleanupScope| rules.scope == wanted || rules.scope == CleanupScope::Everything;
    let why = match merge_status.verdict.merged_by() {
        Some(method) if wants(CleanupScope::Merged) => CleanupReason::Merged(method),
        _ if wants(CleanupScope::Stale) && merge_status.stale && rules.steady => CleanupReason::Stale,
        _ => return CleanupChoice::Leave,
    };
    if merge_status.checked_out.is_some() {
        return CleanupChoice::Spare(SparedReason::OtherBranch);
    }
    match rules.grace {
        Some(_) if !rules.steady => CleanupChoice::Spare(SparedReason::ClockJumped),
        Some(grace) if grace.protects_since(environment.created_at.max(merge_status.last_active)) => {
            CleanupChoice::Spare(SparedReason::Recent(grace.length))
        }
        _ => CleanupChoice::Remove(why),
    }
}

#[cfg(test)]
mod tests {
    use grove_git::verdict::MergeVerdict;
    use grove_model::{AdoptedFrom, WorkKind};

    use super::*;
    use crate::create::decide::tests::test_environment;

    const ONE_HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn minutes_ago(now: Moment, minutes: i64) -> Moment {
        now.add_duration(SignedDuration::from_mins(-minutes))
    }

    /// Returns an environment and its merge status: created and last active so many minutes ago.
    fn environment_with_status(
        now: Moment,
        created: i64,
        active: i64,
        verdict: MergeVerdict,
        stale: bool,
    ) -> (Environment, MergeStatus) {
        let environment = Environment { created_at: minutes_ago(now, created), ..test_environment(WorkKind::Pr, "7") };
        (
            environment,
            MergeStatus { verdict, head: None, checked_out: None, last_active: minutes_ago(now, active), stale },
        )
    }

    fn merged_verdict() -> MergeVerdict {
        MergeVerdict::Merged { by: MergeMethod::Ancestor, ahead: 0, behind: 1 }
    }

    fn unmerged_verdict() -> MergeVerdict {
        MergeVerdict::Unmerged { ahead: 1, behind: 0 }
    }

    const REMOVE_MERGED: CleanupChoice = CleanupChoice::Remove(CleanupReason::Merged(MergeMethod::Ancestor));
    const REMOVE_STALE: CleanupChoice = CleanupChoice::Remove(CleanupReason::Stale);
    const REMOVE_GONE: CleanupChoice = CleanupChoice::Remove(CleanupReason::Gone);
    const SPARE_RECENT: CleanupChoice = CleanupChoice::Spare(SparedReason::Recent(ONE_HOUR));

    #[test]
    fn what_was_created_or_used_within_the_grace_is_spared() {
        let now = Moment::now();
        let rules = CleanupRules {
            scope: CleanupScope::Everything,
            steady: true,
            grace: Some(GracePeriod { now, length: ONE_HOUR }),
        };
        for (created, active, expected) in [
            (1, 1, SPARE_RECENT),
            (59, 600, SPARE_RECENT),
            (600, 59, SPARE_RECENT),
            (61, 61, REMOVE_MERGED),
            (60, 60, REMOVE_MERGED),
            // Created or committed by a clock that is ahead of ours.
            (600, -600, SPARE_RECENT),
            (-600, 600, SPARE_RECENT),
        ] {
            let (environment, merge_status) = environment_with_status(now, created, active, merged_verdict(), false);
            assert_eq!(
                choose_cleanup_action(&environment, false, &merge_status, &rules),
                expected,
                "{created} {active}"
            );
            // An environment that is gone from the disk is ended however young it is.
            assert_eq!(
                choose_cleanup_action(&environment, true, &merge_status, &rules),
                REMOVE_GONE,
                "{created} {active}"
            );
            // An explicit command removes it.
            let asked = CleanupRules { scope: CleanupScope::Merged, steady: true, grace: None };
            assert_eq!(choose_cleanup_action(&environment, false, &merge_status, &asked), REMOVE_MERGED);
        }
    }

    #[test]
    fn a_clock_that_jumped_makes_nothing_removable() {
        let now = Moment::now();
        let rules = CleanupRules {
            scope: CleanupScope::Everything,
            steady: false,
            grace: Some(GracePeriod { now, length: ONE_HOUR }),
        };
        let (environment, merge_status) = environment_with_status(now, 600, 600, merged_verdict(), false);
        assert_eq!(
            choose_cleanup_action(&environment, false, &merge_status, &rules),
            CleanupChoice::Spare(SparedReason::ClockJumped)
        );
        assert_eq!(choose_cleanup_action(&environment, true, &merge_status, &rules), REMOVE_GONE);
        let (environment, merge_status) = environment_with_status(now, 600_000, 600_000, unmerged_verdict(), true);
        assert_eq!(choose_cleanup_action(&environment, false, &merge_status, &rules), CleanupChoice::Leave);
        // The merge check needs no clock if the age does not matter.
        let (environment, merge_status) = environment_with_status(now, 600, 600, merged_verdict(), true);
        let asked = CleanupRules { scope: CleanupScope::Merged, steady: false, grace: None };
        assert_eq!(choose_cleanup_action(&environment, false, &merge_status, &asked), REMOVE_MERGED);
    }

    #[test]
    fn a_grace_longer_than_staleness_spares_what_is_stale() {
        let now = Moment::now();
        let grace = |hours| Some(GracePeriod { now, length: SignedDuration::from_hours(hours) });
        let (environment, merge_status) = environment_with_status(now, 60_000, 60 * 25, unmerged_verdict(), true);
        let rules = |hours| CleanupRules { scope: CleanupScope::Stale, steady: true, grace: grace(hours) };
        assert_eq!(choose_cleanup_action(&environment, false, &merge_status, &rules(1)), REMOVE_STALE);
        let spared = CleanupChoice::Spare(SparedReason::Recent(SignedDuration::from_hours(48)));
        assert_eq!(choose_cleanup_action(&environment, false, &merge_status, &rules(48)), spared);
    }

    #[test]
    fn only_what_is_in_scope_and_ours_is_chosen() {
        let now = Moment::now();
        let rules = |scope| CleanupRules { scope, steady: true, grace: None };
        let everything = [CleanupScope::Merged, CleanupScope::Stale, CleanupScope::Everything];
        let chosen = |environment: &Environment, merge_status: &MergeStatus| {
            everything.map(|scope| choose_cleanup_action(environment, false, merge_status, &rules(scope)))
        };
        let (environment, merge_status) = environment_with_status(now, 600, 600, merged_verdict(), false);
        assert_eq!(chosen(&environment, &merge_status), [REMOVE_MERGED, CleanupChoice::Leave, REMOVE_MERGED]);
        let (environment, merge_status) = environment_with_status(now, 600, 600, unmerged_verdict(), true);
        assert_eq!(chosen(&environment, &merge_status), [CleanupChoice::Leave, REMOVE_STALE, REMOVE_STALE]);
        let (environment, merge_status) = environment_with_status(now, 600, 600, merged_verdict(), true);
        assert_eq!(chosen(&environment, &merge_status), [REMOVE_MERGED, REMOVE_STALE, REMOVE_MERGED]);
        assert_eq!(
            choose_cleanup_action(&environment, true, &merge_status, &rules(CleanupScope::Merged)),
            REMOVE_MERGED,
            "a command ends no record"
        );
        let (fresh, merge_status) = environment_with_status(now, 600, 600, MergeVerdict::Fresh { behind: 0 }, false);
        assert_eq!(chosen(&fresh, &merge_status), [CleanupChoice::Leave; 3]);
        let (unknown, merge_status) =
            environment_with_status(now, 600, 600, MergeVerdict::Unknown { why: "git failed".to_owned() }, false);
        assert_eq!(chosen(&unknown, &merge_status), [CleanupChoice::Leave; 3]);
        let mut adopted = environment.clone();
        adopted.metadata.adopted_from = Some(AdoptedFrom::Path);
        let asleep = Environment { status: Status::Hibernated, ..environment };
        let (_, merge_status) = environment_with_status(now, 600, 600, merged_verdict(), true);
        for environment in [adopted, asleep] {
            assert_eq!(chosen(&environment, &merge_status), [CleanupChoice::Leave; 3]);
            assert_eq!(
                choose_cleanup_action(&environment, true, &merge_status, &rules(CleanupScope::Everything)),
                CleanupChoice::Leave
            );
        }
    }

    #[test]
    fn the_reason_is_one_sentence() {
        assert_eq!(
            SparedReason::Recent(SignedDuration::from_mins(90)).to_string(),
            "It was created, spoken to or changed less than 1h 30m ago."
        );
    }
}
