//! Environments as they are: lists, merge status, sizes, diffs.

pub mod base;
pub mod current;
pub mod diff;
pub mod find;
pub mod list;
pub mod merge_status;
pub mod size;
