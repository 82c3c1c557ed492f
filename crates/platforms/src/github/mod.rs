//! GitHub: issues and pull requests.
//!
//! * [`inbound`]: what GitHub sends, from a signed webhook to a message; pure but for the webhook itself.
//! * [`api`]: the client for everything that is asked of GitHub.
//! * [`adapter`]: the connected account, shared by all that follows.
//! * [`worker`]: events that were kept, one by one, and polling for what webhooks did not bring.
//! * [`outbound`]: answers as comments.
//! * [`connection`]: what git and commands need of GitHub.
//! * [`doctor`]: whether it can work as it is configured.

pub mod adapter;
pub mod api;
pub mod connection;
pub mod doctor;
pub mod inbound;
pub mod outbound;
pub mod repo;
pub mod web_address;
pub mod worker;
