//! Posts answers to GitHub as comments.

pub mod comments;
