//! What a running server does by itself, and what `grove doctor` looks at.

pub mod doctor;
mod kernel;
pub mod reconcile;
pub mod scheduler;
