//! The state of the connection to Slack: the account, and the sockets if Socket Mode is on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::adapter::AdapterState;

/// What is known about the connection.
#[derive(Debug)]
pub(crate) struct SlackHealth {
    uses_sockets: bool,
    facts: Mutex<HealthFacts>,
}

#[derive(Debug, Default)]
struct HealthFacts {
    /// The account as people see it, or the reason why it is unknown.
    account: Option<Result<String, String>>,
    /// The state of each socket: open, or why it is not.
    sockets: Vec<Option<Result<(), String>>>,
}

impl SlackHealth {
    pub fn new(uses_sockets: bool) -> Self {
        Self { uses_sockets, facts: Mutex::default() }
    }

    pub fn account_known(&self, name: &str, team: &str) {
        let team = if team.is_empty() { String::new() } else { format!(" in {team}") };
        self.lock().account = Some(Ok(format!("as {name}{team}")));
    }

    pub fn account_failed(&self, why: &str) {
        self.lock().account = Some(Err(why.to_owned()));
    }

    pub fn socket_opened(&self, number: usize) {
        self.set_socket(number, Ok(()));
    }

    pub fn socket_failed(&self, number: usize, why: &str) {
        self.set_socket(number, Err(why.to_owned()));
    }

    fn set_socket(&self, number: usize, state: Result<(), String>) {
        let mut facts = self.lock();
        if facts.sockets.len() <= number {
            facts.sockets.resize(number + 1, None);
        }
        facts.sockets[number] = Some(state);
    }

    /// Returns the state for people; `None` while it is not known.
    pub fn state(&self) -> Option<(AdapterState, String)> {
        let facts = self.lock();
        let account = match facts.account.as_ref()? {
            Ok(account) => account,
            Err(why) => return Some((AdapterState::Failing, why.clone())),
        };
        if !self.uses_sockets {
            return Some((AdapterState::Connected, format!("{account}, Events API")));
        }
        let known = || facts.sockets.iter().flatten();
        if known().any(Result::is_ok) {
            return Some((AdapterState::Connected, format!("{account}, Socket Mode")));
        }
        let why = known().find_map(|socket| socket.as_ref().err());
        why.map(|why| (AdapterState::Failing, why.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, HealthFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_connected_when_the_account_and_one_socket_are_there() {
        let health = SlackHealth::new(true);
        health.socket_failed(1, "closed");
        assert!(health.state().is_none());
        health.account_known("grove", "Acme");
        assert_eq!(health.state(), Some((AdapterState::Failing, "closed".to_owned())));
        health.socket_opened(0);
        assert_eq!(health.state(), Some((AdapterState::Connected, "as grove in Acme, Socket Mode".to_owned())));
        health.account_failed("invalid_auth");
        assert_eq!(health.state(), Some((AdapterState::Failing, "invalid_auth".to_owned())));
        let health = SlackHealth::new(false);
        health.account_known("grove", "");
        assert_eq!(health.state(), Some((AdapterState::Connected, "as grove, Events API".to_owned())));
    }
}
