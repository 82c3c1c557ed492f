//! Custom commands: Markdown files of the repository that people run by name.
//!
//! They are read from the base branch, never from a worktree, where an agent may have written them.
//! [`Catalogue`] knows which there are, [`front`] reads what stands above the words, [`expand`] puts
//! arguments into the words.

mod expand;
mod front_matter;
mod words;

use std::collections::HashSet;

use grove_agents::agent::Tools;
use grove_environments::{Isolation, IsolationError};
use grove_git::base::{Base, FetchPolicy};
use grove_git::files::CommittedFile;
use grove_git::{GitError, Repository};
use grove_model::Codebase;

use crate::command_line::Arguments;

/// Where they are. Of several with one name, the one in the first of these folders counts.
pub const FOLDERS: [&str; 3] = [".grove/commands", ".archon/commands", ".claude/commands"];

/// How many are read at most.
const MOST: usize = 500;
/// How large one may be.
const LARGEST: u64 = 256 * 1024;
/// How many are read by one git.
const AT_ONCE: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum CustomError {
    #[error("there is no custom command `{name}` on `{base}`")]
    Unknown { name: String, base: String, near: Option<String> },
    #[error("`{file}` is larger than {} KiB", LARGEST / 1024)]
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

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It looks, and changes nothing.
    Read,
    Write,
    Mixed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub name: String,
    /// Where it stands in the repository.
    pub file: String,
    /// What goes behind its name.
    pub hint: Option<String>,
    pub description: Option<String>,
    pub kind: Kind,
    pub requires_isolation: bool,
    /// Only these tools; empty: all.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    words: String,
}

impl Command {
    /// Whether it is run beside the conversation's own environment, at a commit that it only looks at.
    pub fn runs_apart(&self) -> bool {
        self.kind == Kind::Read && !self.requires_isolation
    }

    /// What an agent may use for it.
    pub fn tools(&self) -> Tools {
        let (allowed, disallowed) = (self.allowed.clone(), self.disallowed.clone());
        Tools { allowed, disallowed, read_only: self.kind == Kind::Read }
    }

    /// What the agent is told.
    pub fn words(&self, arguments: &Arguments) -> Result<String, CustomError> {
        expand::expand(&self.words, arguments).map_err(|error| match error {
            expand::Bad::TooLong => CustomError::TooLong { file: self.file.clone() },
            expand::Bad::OpenQuote => CustomError::OpenQuote { file: self.file.clone() },
        })
    }
}

/// The commands of a base branch.
pub struct Catalogue {
    repo: Repository,
    /// What the base is called.
    base: String,
    /// By name.
    files: Vec<(String, CommittedFile)>,
    /// How many were too many.
    pub left_out: usize,
}

impl Catalogue {
    /// The custom commands of a codebase's base branch, fetched as the settings say unless `fetch` says
    /// otherwise.
    pub async fn of_codebase(
        environments: &Isolation,
        codebase: &Codebase,
        fetch: Option<FetchPolicy>,
    ) -> Result<Self, IsolationError> {
        let base = environments.base(codebase, fetch).await?;
        Ok(Self::of(environments.repository(codebase), &base).await?)
    }

    pub async fn of(repo: Repository, base: &Base) -> Result<Self, GitError> {
        let found = repo.files_below(&base.sha, &FOLDERS).await?;
        let (files, left_out) = choose(&found);
        Ok(Self { repo, base: base.name.clone(), files, left_out })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// What the base branch is called.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The command that somebody calls by this name; `a:b` is `a/b`.
    pub async fn find(&self, name: &str) -> Result<Command, CustomError> {
        let with_slashes = name.replace(':', "/");
        let found =
            [name, &with_slashes].into_iter().find_map(|name| self.files.iter().find(|(known, _)| known == name));
        let Some((name, file)) = found else {
            let near = crate::command_line::nearest(&with_slashes, self.names()).map(str::to_owned);
            return Err(CustomError::Unknown { name: name.to_owned(), base: self.base.clone(), near });
        };
        check_size(file)?;
        let bytes = self.repo.read_files(std::slice::from_ref(file)).await?.pop().unwrap_or_default();
        parse(name, &shown(file), &bytes)
    }

    /// All of them by name, each as far as it can be read.
    pub async fn read(&self) -> Result<Vec<(String, Result<Command, CustomError>)>, GitError> {
        let mut all = Vec::new();
        for some in self.files.chunks(AT_ONCE) {
            let fitting: Vec<CommittedFile> =
                some.iter().map(|(_, file)| file).filter(|file| file.size <= LARGEST).cloned().collect();
            let mut bytes = self.repo.read_files(&fitting).await?.into_iter();
            for (name, file) in some {
                let command =
                    check_size(file).and_then(|()| parse(name, &shown(file), &bytes.next().unwrap_or_default()));
                all.push((name.clone(), command));
            }
        }
        Ok(all)
    }
}

fn shown(file: &CommittedFile) -> String {
    file.path.display().to_string()
}

fn check_size(file: &CommittedFile) -> Result<(), CustomError> {
    if file.size > LARGEST { Err(CustomError::TooLarge { file: shown(file) }) } else { Ok(()) }
}

/// Names the files, leaves those away that an earlier folder has too, and those that are too many.
fn choose(found: &[CommittedFile]) -> (Vec<(String, CommittedFile)>, usize) {
    let (mut chosen, mut names) = (Vec::new(), HashSet::new());
    for folder in FOLDERS {
        for file in found {
            let Some(name) = name_in(folder, file) else { continue };
            if names.insert(name.clone()) {
                chosen.push((name, file.clone()));
            }
        }
    }
    let left_out = chosen.len().saturating_sub(MOST);
    chosen.truncate(MOST);
    chosen.sort_by(|(one, _), (other, _)| one.cmp(other));
    (chosen, left_out)
}

/// The path below the folder without its ending. What nobody could type is no command.
fn name_in(folder: &str, file: &CommittedFile) -> Option<String> {
    let below = file.path.strip_prefix(folder).ok()?.to_str()?;
    let name = below.strip_suffix(".md").filter(|name| !name.is_empty() && !name.ends_with('/'))?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}

/// Reads a command's file.
fn parse(name: &str, file: &str, bytes: &[u8]) -> Result<Command, CustomError> {
    let text = std::str::from_utf8(bytes).map_err(|_| CustomError::NotText { file: file.to_owned() })?;
    let (front, words) = front_matter::split(text);
    let bad = |key, value: String, known| CustomError::BadValue { file: file.to_owned(), key, value, known };
    let kind = match front.word("type").as_deref() {
        None | Some("write") => Kind::Write,
        Some("read") => Kind::Read,
        Some("mixed") => Kind::Mixed,
        Some(other) => return Err(bad("type", other.to_owned(), "`read`, `write` or `mixed`")),
    };
    let requires_isolation = match front.word("requires_isolation").as_deref() {
        None | Some("false" | "no") => false,
        Some("true" | "yes") => true,
        Some(other) => return Err(bad("requires_isolation", other.to_owned(), "`true` or `false`")),
    };
    let list = |key| front.list(key).map_err(|why| CustomError::BadList { file: file.to_owned(), key, why });
    let (mut allowed, disallowed) = (list("allowed_tools")?, list("disallowed_tools")?);
    if allowed.iter().any(|tool| tool == "*") {
        allowed.clear();
    }
    let words = words.trim();
    if words.is_empty() {
        return Err(CustomError::Empty { file: file.to_owned() });
    }
    Ok(Command {
        name: name.to_owned(),
        file: file.to_owned(),
        hint: front.text("argument_hint"),
        description: front.text("description").or_else(|| front_matter::heading(words)),
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

    fn command(text: &str) -> Result<Command, CustomError> {
        parse("x", ".grove/commands/x.md", text.as_bytes())
    }

    fn refused(text: &str) -> String {
        command(text).unwrap_err().to_string()
    }

    #[test]
    fn what_a_file_says_is_what_the_command_is() {
        let text = "---\ndescription: Look: a pull request\ntype: read\nargument-hint: [number]\n\
                    allowed-tools: Read, Bash(git log:*, x)\n---\n\n# Review\n\nLook at $1.\n";
        let command = command(text).unwrap();
        assert_eq!(command.description.as_deref(), Some("Look: a pull request"));
        assert_eq!(command.hint.as_deref(), Some("[number]"));
        assert_eq!(command.allowed, ["Read", "Bash(git log:*, x)"]);
        assert!(command.runs_apart() && command.tools().read_only);
        assert_eq!(command.words, "# Review\n\nLook at $1.");
    }

    #[test]
    fn what_is_missing_is_write_and_what_is_not_known_is_ignored() {
        for text in ["Do it.", "---\nmodel: opus\ncolour: red\n---\nDo it.", "---\ntype:\n---\nDo it."] {
            let command = command(text).unwrap();
            assert_eq!((command.kind, command.runs_apart()), (Kind::Write, false), "{text}");
            assert_eq!(command.description.as_deref(), Some("Do it."));
        }
        let apart = |front: &str| command(&format!("---\n{front}\n---\nx")).unwrap().runs_apart();
        assert!(apart("type: Read # only") && apart("type: 'read'\nrequires_isolation: false"));
        assert!(!apart("type: mixed") && !apart("type: read\nrequires-isolation: true"));
        let all = command("---\nallowed-tools: '*'\n---\nx").unwrap();
        assert!(all.allowed.is_empty());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_file_and_value() {
        let wrong = "`.grove/commands/x.md` says `type: reed`, which is not `read`, `write` or `mixed`";
        assert_eq!(refused("---\ntype: reed\n---\nx"), wrong);
        assert!(refused("---\nrequires_isolation: maybe\n---\nx").contains("`requires_isolation: maybe`"));
        assert!(refused("---\nallowed_tools: []\n---\nx").contains("is empty"));
        assert!(refused("---\ndisallowed-tools: Bash(git push\n---\nx").contains("not closed"));
        assert!(refused("---\ntype: read\n---\n\n").contains("no words"));
        let bytes = parse("x", "x.md", b"\xff\xfe").unwrap_err();
        assert_eq!(bytes.to_string(), "`x.md` is not UTF-8 text");
    }
}
