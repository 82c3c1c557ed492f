//! The seam to coding agents, and the programs behind it.
//!
//! An [`Agent`] is started in a work directory with a prompt, reports what it does while it does it, and
//! ends with an [`agent::Outcome`]. Nothing else knows which program it is.
//!
//! * [`agent`]: the seam itself.
//! * [`supervisor`], [`process`]: a program and everything that it starts, ended together.
//! * [`transcript`], [`tail`], [`json_lines`], [`tool_summary`]: what a program says, in bounded memory.
//! * [`environment`]: the variables that a program gets.
//! * [`claude`], [`codex`], [`acp`], [`command`]: a driver for each kind of program.
//! * [`registry`], [`health`]: which agents there are, and whether they can be used.

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
pub mod supervisor;
pub mod tail;
mod tool_summary;
mod transcript;
mod words;

pub use agent::Agent;
