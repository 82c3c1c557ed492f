//! What Tab offers.

use grove_conversations::commands::{COMMANDS, Entry, worktree};
use grove_conversations::custom::Catalogue;
use grove_environments::environments::Isolation;
use grove_environments::problem::Problem;
use grove_git::base::FetchPolicy;
use grove_model::{Codebase, Environment, Status};
use grove_store::{Store, StoreError};

/// What stands behind a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One of these words.
    Words(Vec<String>),
    Worktree,
    RemovedWorktree,
    Codebase,
    CustomCommand,
    Nothing,
}

/// What may be written at the end of `line`, and where the word that is being written begins.
pub fn wanted(line: &str) -> (usize, Wanted) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let before: Vec<&str> = line[..start].split_whitespace().collect();
    let names = |entries: &[Entry], mark: &str| {
        Wanted::Words(entries.iter().map(|entry| format!("{mark}{}", entry.name)).collect())
    };
    let wanted = match before[..] {
        [] if line[start..].starts_with('/') => names(COMMANDS, "/"),
        ["/worktree"] => names(worktree::COMMANDS, ""),
        ["/codebase"] => Wanted::Codebase,
        ["/run"] => Wanted::CustomCommand,
        ["/worktree", "cleanup"] => Wanted::Words(vec!["merged".to_owned(), "stale".to_owned()]),
        ["/worktree", "undo"] => Wanted::RemovedWorktree,
        ["/worktree", "remove" | "link" | "hibernate" | "wake" | "why"] => Wanted::Worktree,
        _ => Wanted::Nothing,
    };
    (start, wanted)
}

/// How a command is written, behind its name.
pub fn usage(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split(' ').collect();
    let of = |entries: &'static [Entry], name: &str| entries.iter().find(|entry| entry.name == name);
    let entry = match words[..] {
        ["/worktree", name, ""] => of(worktree::COMMANDS, name),
        [command, ""] => of(COMMANDS, command.strip_prefix('/')?),
        _ => None,
    };
    entry.map(|entry| entry.usage).filter(|usage| !usage.is_empty())
}

/// The names that are known at this moment.
#[derive(Clone)]
pub struct Names {
    pub store: Store,
    pub isolation: Isolation,
    pub codebase: Option<Codebase>,
}

impl Names {
    pub async fn of(&self, wanted: Wanted) -> Result<Vec<String>, Problem> {
        Ok(match wanted {
            Wanted::Words(words) => words,
            Wanted::Codebase => self.store.codebases().await?.into_iter().map(|codebase| codebase.name).collect(),
            Wanted::Worktree => branches(self.environments(false).await?.iter()),
            Wanted::RemovedWorktree => {
                let all = self.environments(true).await?;
                branches(all.iter().filter(|environment| environment.status == Status::Destroyed))
            }
            Wanted::CustomCommand => self.custom_commands().await?,
            Wanted::Nothing => Vec::new(),
        })
    }

    /// As far as they are known here: whoever types does not wait for a remote.
    async fn custom_commands(&self) -> Result<Vec<String>, Problem> {
        let Some(codebase) = &self.codebase else { return Ok(Vec::new()) };
        let commands = Catalogue::of_codebase(&self.isolation, codebase, Some(FetchPolicy::Never)).await?;
        Ok(commands.names().filter(|name| !name.contains(char::is_whitespace)).map(str::to_owned).collect())
    }

    async fn environments(&self, all: bool) -> Result<Vec<Environment>, StoreError> {
        let codebases = match &self.codebase {
            Some(codebase) => vec![codebase.id],
            None => self.store.codebases().await?.into_iter().map(|codebase| codebase.id).collect(),
        };
        let mut found = Vec::new();
        for codebase in codebases {
            found.extend(self.store.environments(codebase, all).await?);
        }
        Ok(found)
    }
}

fn branches<'a>(environments: impl Iterator<Item = &'a Environment>) -> Vec<String> {
    let mut names: Vec<String> = environments.map(|environment| environment.branch.to_string()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_depends_on_what_stands_before() {
        let has = |line: &str, word: &str| match wanted(line) {
            (_, Wanted::Words(words)) => words.iter().any(|known| known == word),
            _ => false,
        };
        assert!(has("/wor", "/worktree") && has("/", "/help") && has("/worktree re", "remove"));
        assert!(has("/worktree cleanup m", "merged"));
        assert_eq!(wanted("/worktree remove is"), (17, Wanted::Worktree));
        assert_eq!(wanted("/worktree undo "), (15, Wanted::RemovedWorktree));
        assert_eq!(wanted("/codebase x"), (10, Wanted::Codebase));
        assert_eq!(wanted("/run rev"), (5, Wanted::CustomCommand));
        for line in ["", "hello", "see /wor", "/help ", "/run a b", "/worktree remove a b"] {
            assert_eq!(wanted(line).1, Wanted::Nothing, "{line}");
        }
    }

    #[test]
    fn the_usage_is_shown_where_something_is_missing() {
        assert_eq!(usage("/codebase "), Some("NAME"));
        assert_eq!(usage("/worktree create "), Some("NAME [--from REF]"));
        for line in ["/codebase", "/codebase x", "/help ", "hello ", "/worktree list "] {
            assert_eq!(usage(line), None, "{line}");
        }
    }
}
