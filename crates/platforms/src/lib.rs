//! The platforms that people use: incoming events become an `IncomingEvent`, and answers are posted.
//!
//! Adapters are thin. They know the formats and rules of a platform; they never choose, create or remove an
//! environment, and never write a message about one.
//!
//! * [`github`], [`slack`], [`discord`], [`telegram`]: one folder each, with `inbound`, `outbound` and `doctor`.
//! * [`adapters`]: the one place that lists them.
//! * [`event_queue`]: stored events, handled in order and retried.
//! * [`access`]: who may direct the agent. [`mention`]: the bot's name in a text.
//! * [`choices`]: buttons for questions.
//! * [`webhook`], [`retry`], [`adapter`]: what the folders have in common.
//! * [`markdown`]: finds the code and the hidden parts of a text.
//! * [`split`]: splits a long text into several messages.
//! * [`clean`]: makes untrusted text safe for an agent's context.

pub mod access;
pub mod adapter;
pub mod adapters;
pub mod choices;
pub mod clean;
pub mod discord;
pub mod event_queue;
pub mod github;
pub mod markdown;
pub mod mention;
pub mod retry;
pub mod slack;
pub mod split;
pub mod telegram;
pub mod webhook;
