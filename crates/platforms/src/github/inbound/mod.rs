//! Turns the events of GitHub into messages, or into a reason why they are ignored.

pub mod access;
pub mod classify;
pub mod context;
pub mod event;
pub mod links;
pub mod marker;
pub mod payload;
pub mod signature;
pub mod webhook;
pub mod wire;
