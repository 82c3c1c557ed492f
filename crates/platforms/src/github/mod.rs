//! GitHub: issues and pull requests.
//!
//! * [`inbound`]: from a signed webhook to a message; pure except for the webhook itself.
//! * [`api`]: the client for all requests to GitHub.
//! * [`adapter`]: the connected account, shared by the following modules.
//! * [`worker`]: handles stored events, and polls for those that webhooks did not deliver.
//! * [`outbound`]: posts answers as comments.
//! * [`connection`]: tokens for git, and pull requests for commands.
//! * [`doctor`]: checks whether GitHub works as it is configured.
//! * [`repo`]: the name of a repository.
//! * [`web_address`]: the addresses of repositories.

pub mod adapter;
pub mod api;
pub mod connection;
pub mod doctor;
pub mod inbound;
pub mod outbound;
pub mod repo;
pub mod web_address;
pub mod worker;
