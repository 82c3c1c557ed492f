//! The platforms that people speak from: what comes in becomes an `Incoming`, what is said goes out.
//!
//! Adapters are thin. They know a platform's formats and rules; they never choose, make or remove an
//! environment, and never word a message about one.
//!
//! * [`github`]: issues and pull requests.
//! * [`markdown`]: which part of a text is code, and which is hidden.
//! * [`split`]: a long text in several messages.
//! * [`clean`]: text that is not to be trusted, made fit for an agent's context.

pub mod clean;
pub mod github;
pub mod markdown;
pub mod split;
