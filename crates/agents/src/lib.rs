//! The interface to coding agents, and its drivers.
//!
//! An [`Agent`] starts in a work directory with a prompt, reports what it does while it works, and ends with
//! an [`agent::RunOutcome`]. No other crate knows which program it is.
//!
//! * [`agent`]: the interface itself.
//! * [`supervisor`], [`process`]: run a program, and end it with all its descendants.
//! * [`transcript`], [`tail`], [`json_lines`], [`tool_summary`]: the output of a program, in bounded memory.
//! * [`environment`]: the variables that a program gets.
//! * [`claude`], [`codex`], [`acp`], [`command`]: a driver for each kind of program.
//! * [`scripts`]: scripts of a repository, run as agents are.
//! * [`registry`], [`health`]: the available agents, and whether they can be used.
//! * [`words`]: the error messages for agents that cannot be used.

pub mod acp;
pub mod agent;
pub mod claude;
pub mod codex;
pub mod command;
mod environment;
pub mod health;
mod json_lines;
mod process;
pub mod registry;
pub mod scripts;
pub mod supervisor;
pub mod tail;
mod tool_summary;
mod transcript;
mod words;

pub use agent::Agent;
