//! What is said goes to GitHub as comments.

pub mod comments;
