//! Tab completion.

use grove_conversations::commands::{CommandEntry, SLASH_COMMANDS, worktree};
use grove_conversations::custom::CustomCommandCatalog;
use grove_environments::environments::Environments;
use grove_environments::problem::Problem;
use grove_git::base::FetchPolicy;
use grove_model::{Codebase, Environment, Status};
use grove_store::{Store, StoreError};

/// The kind of word that follows a command.
#[derive(Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// One of these words.
    Words(Vec<String>),
    Worktree,
    RemovedWorktree,
    Codebase,
    CustomCommand,
    Nothing,
}

/// Returns the possible completions at the end of `line`, and the start of the word that is being written.
pub fn completion_at_end(line: &str) -> (usize, CompletionKind) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let before: Vec<&str> = line[..start].split_whitespace().collect();
    let names = |entries: &[CommandEntry], mark: &str| {
        CompletionKind::Words(entries.iter().map(|entry| format!("{mark}{}", entry.name)).collect())
    };
    let wanted = match before[..] {
        [] if line[start..].starts_with('/') => names(SLASH_COMMANDS, "/"),
        ["/worktree"] => names(worktree::WORKTREE_COMMANDS, ""),
        ["/codebase"] => CompletionKind::Codebase,
        ["/run"] => CompletionKind::CustomCommand,
        ["/worktree", "cleanup"] => CompletionKind::Words(vec!["merged".to_owned(), "stale".to_owned()]),
        ["/worktree", "undo"] => CompletionKind::RemovedWorktree,
        ["/worktree", "remove" | "link" | "hibernate" | "wake" | "why"] => CompletionKind::Worktree,
        _ => CompletionKind::Nothing,
    };
    (start, wanted)
}

/// Returns the arguments of a command, to show behind its name.
pub fn command_usage(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split(' ').collect();
    let of = |entries: &'static [CommandEntry], name: &str| entries.iter().find(|entry| entry.name == name);
    let entry = match words[..] {
        ["/worktree", name, ""] => of(worktree::WORKTREE_COMMANDS, name),
        [command, ""] => of(SLASH_COMMANDS, command.strip_prefix('/')?),
        _ => None,
    };
    entry.map(|entry| entry.usage).filter(|usage| !usage.is_empty())
}

/// The names that are known at this moment.
#[derive(Clone)]
pub struct CompletionNames {
    pub store: Store,
    pub environments: Environments,
    pub codebase: Option<Codebase>,
}

impl CompletionNames {
    pub async fn completion_names(&self, wanted: CompletionKind) -> Result<Vec<String>, Problem> {
        Ok(match wanted {
            CompletionKind::Words(words) => words,
            CompletionKind::Codebase => {
                self.store.list_codebases().await?.into_iter().map(|codebase| codebase.name).collect()
            }
            CompletionKind::Worktree => branch_names(self.load_environments(false).await?.iter()),
            CompletionKind::RemovedWorktree => {
                let all = self.load_environments(true).await?;
                branch_names(all.iter().filter(|environment| environment.status == Status::Destroyed))
            }
            CompletionKind::CustomCommand => self.custom_commands().await?,
            CompletionKind::Nothing => Vec::new(),
        })
    }

    /// Returns the custom commands that are known locally: completion does not wait for a remote.
    async fn custom_commands(&self) -> Result<Vec<String>, Problem> {
        let Some(codebase) = &self.codebase else { return Ok(Vec::new()) };
        let commands =
            CustomCommandCatalog::of_codebase(&self.environments, codebase, Some(FetchPolicy::Never)).await?;
        Ok(commands.command_names().filter(|name| !name.contains(char::is_whitespace)).map(str::to_owned).collect())
    }

    async fn load_environments(&self, all: bool) -> Result<Vec<Environment>, StoreError> {
        let codebases = match &self.codebase {
            Some(codebase) => vec![codebase.id],
            None => self.store.list_codebases().await?.into_iter().map(|codebase| codebase.id).collect(),
        };
        let mut found = Vec::new();
        for codebase in codebases {
            found.extend(self.store.list_environments(codebase, all).await?);
        }
        Ok(found)
    }
}

fn branch_names<'a>(environments: impl Iterator<Item = &'a Environment>) -> Vec<String> {
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
        let has = |line: &str, word: &str| match completion_at_end(line) {
            (_, CompletionKind::Words(words)) => words.iter().any(|known| known == word),
            _ => false,
        };
        assert!(has("/wor", "/worktree") && has("/", "/help") && has("/worktree re", "remove"));
        assert!(has("/worktree cleanup m", "merged"));
        assert_eq!(completion_at_end("/worktree remove is"), (17, CompletionKind::Worktree));
        assert_eq!(completion_at_end("/worktree undo "), (15, CompletionKind::RemovedWorktree));
        assert_eq!(completion_at_end("/codebase x"), (10, CompletionKind::Codebase));
        assert_eq!(completion_at_end("/run rev"), (5, CompletionKind::CustomCommand));
        for line in ["", "hello", "see /wor", "/help ", "/run a b", "/worktree remove a b"] {
            assert_eq!(completion_at_end(line).1, CompletionKind::Nothing, "{line}");
        }
    }

    #[test]
    fn the_usage_is_shown_where_something_is_missing() {
        assert_eq!(command_usage("/codebase "), Some("NAME"));
        assert_eq!(command_usage("/worktree create "), Some("NAME [--from REF]"));
        for line in ["/codebase", "/codebase x", "/help ", "hello ", "/worktree list "] {
            assert_eq!(command_usage(line), None, "{line}");
        }
    }
}
