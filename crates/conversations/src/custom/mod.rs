//! Custom commands: Markdown files of the repository that people run by name.
//!
//! They are read from the base branch, never from a worktree, where an agent may have written them.
//! [`CustomCommandCatalog`] lists the commands, [`front_matter`] parses the settings above the text,
//! [`expand`] inserts arguments into the text.

mod expand;
mod front_matter;

use std::collections::HashSet;

use grove_agents::agent::ToolPolicy;
use grove_environments::{EnvironmentError, Environments};
use grove_git::base::{BaseCommit, FetchPolicy};
use grove_git::files::CommittedFile;
use grove_git::{GitError, Repository};
use grove_model::Codebase;

use crate::command_line::CommandArguments;

/// The folders with commands. If several contain the same name, the first folder wins.
pub const COMMAND_FOLDERS: [&str; 3] = [".grove/commands", ".archon/commands", ".claude/commands"];

/// The maximum number of commands that are read.
const MAX_COMMANDS: usize = 500;
/// The maximum size of a command file.
const MAX_COMMAND_BYTES: u64 = 256 * 1024;
/// The number of files that one git process reads.
const READ_BATCH_SIZE: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum CustomCommandError {
    #[error("there is no custom command `{name}` on `{base}`")]
    Unknown { name: String, base: String, near: Option<String> },
    #[error("`{file}` is larger than {} KiB", MAX_COMMAND_BYTES / 1024)]
    TooLarge { file: String },
    #[error("`{file}` is not UTF-8 text")]
    NotText { file: String },
    #[error("`{file}` has no words for the agent")]
    Empty { file: String },
    #[error("`{file}` says `{key}: {value}`, which is not {known}")]
    BadValue { file: String, key: &'static str, value: String, known: &'static str },
    #[error("the list `{key}` of `{file}` {why}")]
    BadList { file: String, key: &'static str, why: &'static str },
    #[error("with these arguments `{file}` is too long for an agent")]
    TooLong { file: String },
    #[error("`{file}` takes its arguments one by one, and a quote among them is not closed")]
    OpenQuote { file: String },
    #[error("`{file}` names the tools that may be used, and the agent `{agent}` cannot be held to that")]
    ToolsNotKept { file: String, agent: String },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The access that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomCommandKind {
    /// The command reads, and changes nothing.
    Read,
    Write,
    Mixed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomCommand {
    pub name: String,
    /// The path of the file in the repository.
    pub file: String,
    /// The arguments, as they are shown after the name.
    pub hint: Option<String>,
    pub description: Option<String>,
    pub kind: CustomCommandKind,
    pub requires_isolation: bool,
    /// The only tools that are allowed; if empty, all are.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    words: String,
}

impl CustomCommand {
    /// Tells whether the command runs outside of the conversation's own environment, on a commit that it
    /// only reads.
    pub fn runs_apart(&self) -> bool {
        self.kind == CustomCommandKind::Read && !self.requires_isolation
    }

    /// Returns the tools that an agent may use for the command.
    pub fn tool_policy(&self) -> ToolPolicy {
        let (allowed, disallowed) = (self.allowed.clone(), self.disallowed.clone());
        ToolPolicy { allowed, disallowed, read_only: self.kind == CustomCommandKind::Read }
    }

    /// Returns the prompt for the agent.
    pub fn expand_prompt(&self, arguments: &CommandArguments) -> Result<String, CustomCommandError> {
        expand::expand_arguments(&self.words, arguments).map_err(|error| match error {
            expand::ExpandError::TooLong => CustomCommandError::TooLong { file: self.file.clone() },
            expand::ExpandError::OpenQuote => CustomCommandError::OpenQuote { file: self.file.clone() },
        })
    }
}

/// The commands of a base branch.
pub struct CustomCommandCatalog {
    repo: Repository,
    /// The name of the base branch.
    base: String,
    /// Sorted by name.
    files: Vec<(String, CommittedFile)>,
    /// The number of commands beyond the maximum.
    pub left_out: usize,
}

impl CustomCommandCatalog {
    /// Reads the list of custom commands of a codebase's base branch. The settings decide whether it is
    /// fetched first, unless `fetch` does.
    pub async fn of_codebase(
        environments: &Environments,
        codebase: &Codebase,
        fetch: Option<FetchPolicy>,
    ) -> Result<Self, EnvironmentError> {
        let base = environments.resolve_base(codebase, fetch).await?;
        Ok(Self::load_from_base(environments.open_repository(codebase), &base).await?)
    }

    pub async fn load_from_base(repo: Repository, base: &BaseCommit) -> Result<Self, GitError> {
        let found = repo.files_below(&base.sha, &COMMAND_FOLDERS).await?;
        let (files, left_out) = choose_files(&found);
        Ok(Self { repo, base: base.name.clone(), files, left_out })
    }

    pub fn command_names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the name of the base branch.
    pub fn base_name(&self) -> &str {
        &self.base
    }

    /// Returns the command with a name; `a:b` is `a/b`.
    pub async fn find_command(&self, name: &str) -> Result<CustomCommand, CustomCommandError> {
        let with_slashes = name.replace(':', "/");
        let found =
            [name, &with_slashes].into_iter().find_map(|name| self.files.iter().find(|(known, _)| known == name));
        let Some((name, file)) = found else {
            let near = nearest_name(&with_slashes, self.command_names()).map(str::to_owned);
            return Err(CustomCommandError::Unknown { name: name.to_owned(), base: self.base.clone(), near });
        };
        check_size(file)?;
        let bytes = self.repo.read_files(std::slice::from_ref(file)).await?.pop().unwrap_or_default();
        parse_command(name, &display_path(file), &bytes)
    }

    /// Returns all commands by name, or the error for those that cannot be read.
    pub async fn read_commands(&self) -> Result<Vec<(String, Result<CustomCommand, CustomCommandError>)>, GitError> {
        let mut all = Vec::new();
        for some in self.files.chunks(READ_BATCH_SIZE) {
            let fitting: Vec<CommittedFile> =
                some.iter().map(|(_, file)| file).filter(|file| file.size <= MAX_COMMAND_BYTES).cloned().collect();
            let mut bytes = self.repo.read_files(&fitting).await?.into_iter();
            for (name, file) in some {
                let command = check_size(file)
                    .and_then(|()| parse_command(name, &display_path(file), &bytes.next().unwrap_or_default()));
                all.push((name.clone(), command));
            }
        }
        Ok(all)
    }
}

/// Returns the most similar of the names, if one is similar enough.
fn nearest_name<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |name: &&str| strsim::jaro_winkler(wrong, name);
    let best = names.into_iter().max_by(|a, b| near(a).total_cmp(&near(b)))?;
    (near(&best) > 0.75).then_some(best)
}

fn display_path(file: &CommittedFile) -> String {
    file.path.display().to_string()
}

fn check_size(file: &CommittedFile) -> Result<(), CustomCommandError> {
    if file.size > MAX_COMMAND_BYTES { Err(CustomCommandError::TooLarge { file: display_path(file) }) } else { Ok(()) }
}

/// Names the files, and drops those that an earlier folder also has and those beyond the maximum.
fn choose_files(found: &[CommittedFile]) -> (Vec<(String, CommittedFile)>, usize) {
    let (mut chosen, mut names) = (Vec::new(), HashSet::new());
    for folder in COMMAND_FOLDERS {
        for file in found {
            let Some(name) = name_in(folder, file) else { continue };
            if names.insert(name.clone()) {
                chosen.push((name, file.clone()));
            }
        }
    }
    let left_out = chosen.len().saturating_sub(MAX_COMMANDS);
    chosen.truncate(MAX_COMMANDS);
    chosen.sort_by(|(one, _), (other, _)| one.cmp(other));
    (chosen, left_out)
}

/// Returns the path below the folder without its extension. A file whose name cannot be typed is not a
/// command.
fn name_in(folder: &str, file: &CommittedFile) -> Option<String> {
    let below = file.path.strip_prefix(folder).ok()?.to_str()?;
    let name = below.strip_suffix(".md").filter(|name| !name.is_empty() && !name.ends_with('/'))?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}

/// Parses the file of a command.
fn parse_command(name: &str, file: &str, bytes: &[u8]) -> Result<CustomCommand, CustomCommandError> {
    let text = std::str::from_utf8(bytes).map_err(|_| CustomCommandError::NotText { file: file.to_owned() })?;
    let (front, words) = front_matter::split_front_matter(text);
    let bad = |key, value: String, known| CustomCommandError::BadValue { file: file.to_owned(), key, value, known };
    let kind = match front.word_field("type").as_deref() {
        None | Some("write") => CustomCommandKind::Write,
        Some("read") => CustomCommandKind::Read,
        Some("mixed") => CustomCommandKind::Mixed,
        Some(other) => return Err(bad("type", other.to_owned(), "`read`, `write` or `mixed`")),
    };
    let requires_isolation = match front.word_field("requires_isolation").as_deref() {
        None | Some("false" | "no") => false,
        Some("true" | "yes") => true,
        Some(other) => return Err(bad("requires_isolation", other.to_owned(), "`true` or `false`")),
    };
    let list =
        |key| front.list_field(key).map_err(|why| CustomCommandError::BadList { file: file.to_owned(), key, why });
    let (mut allowed, disallowed) = (list("allowed_tools")?, list("disallowed_tools")?);
    if allowed.iter().any(|tool| tool == "*") {
        allowed.clear();
    }
    let words = words.trim();
    if words.is_empty() {
        return Err(CustomCommandError::Empty { file: file.to_owned() });
    }
    Ok(CustomCommand {
        name: name.to_owned(),
        file: file.to_owned(),
        hint: front.text_field("argument_hint"),
        description: front.text_field("description").or_else(|| front_matter::first_heading(words)),
        kind,
        requires_isolation,
        allowed,
        disallowed,
        words: words.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_test_command(text: &str) -> Result<CustomCommand, CustomCommandError> {
        parse_command("x", ".grove/commands/x.md", text.as_bytes())
    }

    fn refusal_message(text: &str) -> String {
        parse_test_command(text).unwrap_err().to_string()
    }

    #[test]
    fn what_a_file_says_is_what_the_command_is() {
        let text = "---\ndescription: Look: a pull request\ntype: read\nargument-hint: [number]\n\
                    allowed-tools: Read, Bash(git log:*, x)\n---\n\n# Review\n\nLook at $1.\n";
        let command = parse_test_command(text).unwrap();
        assert_eq!(command.description.as_deref(), Some("Look: a pull request"));
        assert_eq!(command.hint.as_deref(), Some("[number]"));
        assert_eq!(command.allowed, ["Read", "Bash(git log:*, x)"]);
        assert!(command.runs_apart() && command.tool_policy().read_only);
        assert_eq!(command.words, "# Review\n\nLook at $1.");
    }

    #[test]
    fn what_is_missing_is_write_and_what_is_not_known_is_ignored() {
        for text in ["Do it.", "---\nmodel: opus\ncolour: red\n---\nDo it.", "---\ntype:\n---\nDo it."] {
            let command = parse_test_command(text).unwrap();
            assert_eq!((command.kind, command.runs_apart()), (CustomCommandKind::Write, false), "{text}");
            assert_eq!(command.description.as_deref(), Some("Do it."));
        }
        let apart = |front: &str| parse_test_command(&format!("---\n{front}\n---\nx")).unwrap().runs_apart();
        assert!(apart("type: Read # only") && apart("type: 'read'\nrequires_isolation: false"));
        assert!(!apart("type: mixed") && !apart("type: read\nrequires-isolation: true"));
        let all = parse_test_command("---\nallowed-tools: '*'\n---\nx").unwrap();
        assert!(all.allowed.is_empty());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_file_and_value() {
        let wrong = "`.grove/commands/x.md` says `type: reed`, which is not `read`, `write` or `mixed`";
        assert_eq!(refusal_message("---\ntype: reed\n---\nx"), wrong);
        assert!(refusal_message("---\nrequires_isolation: maybe\n---\nx").contains("`requires_isolation: maybe`"));
        assert!(refusal_message("---\nallowed_tools: []\n---\nx").contains("is empty"));
        assert!(refusal_message("---\ndisallowed-tools: Bash(git push\n---\nx").contains("not closed"));
        assert!(refusal_message("---\ntype: read\n---\n\n").contains("no words"));
        let bytes = parse_command("x", "x.md", b"\xff\xfe").unwrap_err();
        assert_eq!(bytes.to_string(), "`x.md` is not UTF-8 text");
    }
}
