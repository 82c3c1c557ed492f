//! The background work of a running server, and the checks of `grove doctor`.

pub mod doctor;
mod kernel;
pub mod reconcile;
pub mod scheduler;
