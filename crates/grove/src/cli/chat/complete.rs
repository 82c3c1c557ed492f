//! Tab completion.

use grove_conversations::commands::syntax::{CommandSyntax, possible_values};
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
    let wanted = match before.as_slice() {
        [] if line[start..].starts_with('/') => {
            let all = CommandSyntax::all();
            CompletionKind::Words(all.subcommand_names().map(|name| all.type_subcommand(name)).collect())
        }
        [command, behind @ ..] if let Some(name) = command.strip_prefix('/') => {
            complete_argument(name, behind, &line[start..])
        }
        _ => CompletionKind::Nothing,
    };
    (start, wanted)
}

/// Returns the possible completions of a word behind a command.
fn complete_argument(name: &str, behind: &[&str], word: &str) -> CompletionKind {
    let words: Vec<&str> = std::iter::once(name).chain(behind.iter().copied()).collect();
    let (command, arguments) = CommandSyntax::find_command(&words);
    if command.has_subcommands() {
        let none_yet = arguments.is_empty() && !command.is_root();
        return if none_yet { complete_subcommand(&command) } else { CompletionKind::Nothing };
    }
    if word.starts_with('-') {
        return CompletionKind::Words(command.flags().collect());
    }
    let position = arguments.iter().filter(|argument| !argument.starts_with('-')).count();
    let Some(argument) = command.positionals().nth(position) else { return CompletionKind::Nothing };
    match argument.get_id().as_str() {
        "worktree" => CompletionKind::Worktree,
        "removed_worktree" => CompletionKind::RemovedWorktree,
        "codebase" => CompletionKind::Codebase,
        "custom_command" => CompletionKind::CustomCommand,
        "command" => complete_subcommand(&CommandSyntax::all()),
        _ => match possible_values(argument) {
            values if values.is_empty() => CompletionKind::Nothing,
            values => CompletionKind::Words(values),
        },
    }
}

fn complete_subcommand(group: &CommandSyntax) -> CompletionKind {
    CompletionKind::Words(group.subcommand_names().map(str::to_owned).collect())
}

/// Returns the arguments of a command, to show behind its name.
pub fn command_usage(line: &str) -> Option<String> {
    let words: Vec<&str> = line.strip_prefix('/')?.strip_suffix(' ')?.split(' ').collect();
    let (command, arguments) = CommandSyntax::find_command(&words);
    let usage = command.arguments_usage();
    (arguments.is_empty() && !command.is_root() && !usage.is_empty()).then_some(usage)
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
        assert!(has("/worktree cleanup m", "merged") && has("/worktree remove --f", "--force"));
        assert!(has("/help wor", "worktree") && has("/", "/trust") && has("/worktree ", "init"));
        assert_eq!(completion_at_end("/worktree remove is"), (17, CompletionKind::Worktree));
        assert_eq!(completion_at_end("/worktree remove --force is").1, CompletionKind::Worktree);
        for command in ["link", "sync", "finish", "abort", "diff", "hibernate", "wake", "why"] {
            assert_eq!(completion_at_end(&format!("/worktree {command} ")).1, CompletionKind::Worktree, "{command}");
        }
        assert_eq!(completion_at_end("/worktree undo "), (15, CompletionKind::RemovedWorktree));
        assert_eq!(completion_at_end("/codebase x"), (10, CompletionKind::Codebase));
        assert_eq!(completion_at_end("/run rev"), (5, CompletionKind::CustomCommand));
        let nothing =
            ["", "hello", "see /wor", "/status ", "/run a b", "/worktree remove a b", "/worktree x y", "/xyzzy "];
        for line in nothing {
            assert_eq!(completion_at_end(line).1, CompletionKind::Nothing, "{line}");
        }
    }

    #[test]
    fn the_usage_is_shown_where_something_is_missing() {
        let usages = [
            ("/codebase ", "NAME"),
            ("/worktree ", "…"),
            ("/worktree create ", "NAME [--from REF]"),
            ("/worktree cleanup ", "merged|stale [--dry-run]"),
            ("/help ", "[COMMAND]"),
        ];
        for (line, usage) in usages {
            assert_eq!(command_usage(line).as_deref(), Some(usage), "{line}");
        }
        for line in ["/codebase", "/codebase x", "/retry ", "hello ", "/ ", "/worktree list ", "/worktree x "] {
            assert_eq!(command_usage(line), None, "{line}");
        }
    }
}
