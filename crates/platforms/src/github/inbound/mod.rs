//! What GitHub sends becomes a message, or a reason why it is not one.

pub mod access;
pub mod classify;
pub mod context;
pub mod event;
pub mod links;
pub mod marker;
pub mod mention;
pub mod payload;
pub mod signature;
pub mod webhook;
pub mod wire;
