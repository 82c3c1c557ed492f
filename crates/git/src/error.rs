//! The errors of calls to git.

use std::io;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, thiserror::Error)]
pub enum GitError {
    #[error("git was not found; install it (Debian: `apt-get install git`) or put it on PATH")]
    NotInstalled,
    #[error("git could not be started: {0}")]
    Spawn(#[source] Arc<io::Error>),
    #[error("`git {what}` did not finish within {} s and was ended", after.as_secs())]
    TimedOut { what: String, after: Duration },
    #[error("`git {what}` was interrupted")]
    Interrupted { what: String },
    #[error("`git {what}` failed: {line}")]
    Failed {
        what: String,
        /// `None` if a signal ended git.
        code: Option<i32>,
        /// The line of stderr that says why.
        line: String,
        stderr: String,
    },
    #[error("git's answer to `{what}` could not be read: {detail}")]
    Unreadable { what: String, detail: String },
    #[error("there is nothing to show to the remote: {why}")]
    NoCredential { why: String },
    /// An agent that works in the repository can write its config.
    #[error("`{key}` in the repository's own config could lead a token astray, so none is shown")]
    Astray { key: String },
}

impl GitError {
    pub(crate) fn unreadable_output(what: &str, detail: impl Into<String>) -> Self {
        GitError::Unreadable { what: what.to_owned(), detail: detail.into() }
    }

    /// Returns git's own useful line, or else the whole error.
    pub fn reason_line(&self) -> String {
        match self {
            GitError::Failed { line, .. } => line.clone(),
            other => other.to_string(),
        }
    }
}
