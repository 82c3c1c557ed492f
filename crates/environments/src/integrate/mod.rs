//! Work goes where it belongs: merged into its base, pushed, opened as a pull request, brought up to date.

pub mod finish;
pub mod pull_request;
pub mod push;
pub mod sync;
