//! Integrates work: merges it into its base, pushes it, opens pull requests, syncs environments.

pub mod finish;
pub mod pull_request;
pub mod push;
pub mod sync;
