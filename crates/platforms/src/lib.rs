//! The platforms that people use: incoming events become an `IncomingEvent`, and answers are posted.
//!
//! Adapters are thin. They know the formats and rules of a platform; they never choose, create or remove an
//! environment, and never write a message about one.
//!
//! * [`github`]: issues and pull requests.
//! * [`markdown`]: finds the code and the hidden parts of a text.
//! * [`split`]: splits a long text into several messages.
//! * [`clean`]: makes untrusted text safe for an agent's context.

pub mod clean;
pub mod github;
pub mod markdown;
pub mod split;
