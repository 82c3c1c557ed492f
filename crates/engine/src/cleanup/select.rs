//! What a clean-up takes: the choice alone.

use std::fmt;

use grove_model::{Environment, MergeMethod, Status};

use crate::standing::Standing;

/// What somebody wants cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Merged,
    Stale,
    /// As the scheduler does: merged, stale, gone from the disk.
    Everything,
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

/// Whether an environment is to go, and why. `steady`: the clock can be trusted. What somebody else
/// made, what is on its way and what has failed are left for people.
pub fn select(environment: &Environment, standing: &Standing, scope: Scope, steady: bool) -> Option<Why> {
    if environment.status != Status::Active || environment.is_adopted() {
        return None;
    }
    let wants = |wanted: Scope| scope == wanted || scope == Scope::Everything;
    let parent = environment.path.parent();
    if scope == Scope::Everything && !environment.path.exists() && parent.is_some_and(std::path::Path::exists) {
        return Some(Why::Gone);
    }
    match standing.verdict.merged_by() {
        Some(method) if wants(Scope::Merged) => Some(Why::Merged(method)),
        _ if wants(Scope::Stale) && standing.stale && steady => Some(Why::Stale),
        _ => None,
    }
}
