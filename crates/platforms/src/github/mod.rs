//! GitHub: issues and pull requests.
//!
//! What comes in goes through [`verify`] (is it GitHub's?), [`payload`] and [`event`] (what
//! happened), [`translate`] (is it for us?), [`access`] (may they?) and [`context`] (what the agent
//! should know) and becomes an `Incoming`. [`api`] is the way out. Everything but [`api`] is pure;
//! [`adapter`] is where it all is put to work, [`connection`] what git and commands need of it,
//! [`checkup`] whether any of it can work as it is configured.

pub mod access;
pub mod adapter;
pub mod api;
pub mod checkup;
pub mod connection;
pub mod context;
pub mod event;
pub mod links;
pub mod marker;
pub mod mention;
pub mod news;
pub mod payload;
pub mod repo;
pub mod translate;
pub mod verify;
pub mod web;
pub mod wire;
