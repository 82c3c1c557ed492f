//! The platforms' clients against servers that speak their real protocols.

mod discord_events;
mod github_api;
mod github_git;
mod github_hooks;
mod slack_events;
mod telegram;
