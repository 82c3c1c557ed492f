//! The declaration of the slash commands: names, arguments and descriptions.
//!
//! Parsing, help, completion and usage refusals all read it. The description of a command stands behind its
//! name, so it begins with a verb. The id of an argument tells what completes it (`grove/cli/chat/complete.rs`).
//! An argument with `hide_short_help` is left out of the list of commands. `after_help` is what a refusal says
//! about writing the command, where the usage alone is not enough.

use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use grove_git::finish::FinishMethod;
use grove_model::BranchName;

#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true)]
pub enum SlashCommand {
    /// Show the commands, or the arguments of one
    Help(HelpArgs),
    /// Show codebase, worktree, branch and agent of this conversation
    Status,
    /// Run the last message again that was cut short
    Retry(IgnoredArgs),
    /// Stop what runs in this conversation
    Stop(IgnoredArgs),
    /// Begin a new agent session
    Reset,
    /// List the codebases
    Codebases,
    /// Choose the codebase of this conversation
    Codebase(CodebaseArgs),
    /// Register a repository of this machine
    Register(RegisterArgs),
    /// Clone a repository and register it
    Clone(CloneArgs),
    /// Show or choose the directory of a conversation without a codebase
    Cwd(CwdArgs),
    /// Show or choose the agent
    Agent(AgentArgs),
    /// Make, find and remove worktrees; `/worktree help` shows how
    #[command(subcommand, disable_help_subcommand = true)]
    Worktree(WorktreeCommand),
    /// List custom commands
    Commands,
    /// Run a custom command
    #[command(after_help = "Write {usage}; `/commands` lists the names.")]
    Run(RunArgs),
    /// Show the repository's scripts that wait for approval, or approve them
    Trust(TrustArgs),
    /// Push the worktree's branch
    Push(PushArgs),
    /// Push the worktree's branch and open its pull request
    Pr(PrArgs),
}

impl SlashCommand {
    /// Tells whether the command makes a codebase that of the conversation.
    pub fn chooses_codebase(&self) -> bool {
        matches!(self, Self::Codebase(_) | Self::Register(_) | Self::Clone(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum WorktreeCommand {
    /// Make a worktree and work there
    #[command(after_help = "Write {usage}, with a name such as `fix-login` or `feature/login`.")]
    Create(CreateArgs),
    /// List the worktrees
    List,
    /// Remove a worktree; it can be brought back
    Remove(RemoveArgs),
    /// Bring back what was removed
    Undo(UndoArgs),
    /// Work in the worktree of other work
    #[command(after_help = "Write `/worktree link issue-42`, `/worktree link pr-7` or `/worktree link feature/auth`.")]
    Link(LinkArgs),
    /// Bring what is new in the base into the worktree
    #[command(mut_arg("worktree", |worktree| worktree.hide_short_help(true)))]
    Sync(WorktreeArgs),
    /// Merge the work into its base and remove the worktree
    #[command(mut_arg("worktree", |worktree| worktree.hide_short_help(true)))]
    Finish(FinishArgs),
    /// Give the work up; it can be brought back
    #[command(mut_arg("worktree", |worktree| worktree.hide_short_help(true)))]
    Abort(WorktreeArgs),
    /// Show what was changed
    Diff(DiffArgs),
    /// Put a worktree away until it is needed
    Hibernate(WorktreeArgs),
    /// Bring a hibernated worktree back
    Wake(WorktreeArgs),
    /// Remove what is merged or stale
    #[command(after_help = "Write `/worktree cleanup merged` or `/worktree cleanup stale`.")]
    Cleanup(CleanupArgs),
    /// Run the init script again
    Init(WorktreeArgs),
    /// List worktrees that grove did not make
    Orphans,
    /// Take one of them over
    Adopt(AdoptArgs),
    /// Say why the work is where it is
    Why(WorktreeArgs),
}

/// The rest of a message as it was typed: only the words before it are split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestOfMessage(pub String);

impl From<String> for RestOfMessage {
    fn from(text: String) -> Self {
        Self(text)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct HelpArgs {
    /// The words of the command
    pub command: Vec<String>,
}

/// Arguments of a command that means the same whatever is said after it: `/retry please`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct IgnoredArgs {
    #[arg(hide = true)]
    pub ignored: Option<RestOfMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CodebaseArgs {
    /// The name of the codebase
    #[arg(value_name = "NAME")]
    pub codebase: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RegisterArgs {
    /// The whole path of the repository
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CloneArgs {
    /// The address of the repository
    pub url: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CwdArgs {
    /// The whole path of the directory
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct AgentArgs {
    /// The name of the agent
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// The name of the custom command
    #[arg(value_name = "NAME")]
    pub custom_command: String,
    /// Its arguments
    #[arg(value_name = "ARGS")]
    pub arguments: Option<RestOfMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct PushArgs {
    /// The branch to push, if another one than the recorded one is checked out
    #[arg(long, value_name = "NAME", value_parser = BranchName::parse, hide_short_help = true)]
    pub branch: Option<BranchName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct PrArgs {
    /// The title of the pull request, up to the end of the line
    pub title: Option<RestOfMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CreateArgs {
    /// The branch of the worktree
    #[arg(value_parser = BranchName::parse)]
    pub name: BranchName,
    /// The branch, tag or commit to begin with; without it, the base branch
    #[arg(long, value_name = "REF", alias = "base")]
    pub from: Option<String>,
}

/// A worktree; without a name, the one of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct WorktreeArgs {
    /// The worktree, by its branch or work; without it, the one of this conversation
    #[arg(value_name = "NAME")]
    pub worktree: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub named: WorktreeArgs,
    /// Remove it although something speaks against it
    #[arg(long, short = 'f')]
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct TrustArgs {
    /// Approve what waits
    #[arg(long, short = 'y')]
    pub yes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DiffArgs {
    #[command(flatten)]
    pub named: WorktreeArgs,
    /// Show only how many lines of each file changed
    #[arg(long)]
    pub stat: bool,
    /// Show only the names of the changed files
    #[arg(long, conflicts_with = "stat")]
    pub name_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct UndoArgs {
    /// The removed worktree; without it, the last one
    #[arg(value_name = "NAME")]
    pub removed_worktree: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct LinkArgs {
    /// The work or the branch of the worktree
    #[arg(value_name = "KIND-ID|BRANCH", value_parser = BranchName::parse)]
    pub worktree: BranchName,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct FinishArgs {
    #[command(flatten)]
    pub named: WorktreeArgs,
    /// The way to merge; without it, the one of the settings
    #[arg(long, value_name = "merge|squash", value_parser = FinishMethod::from_str, hide_short_help = true)]
    pub method: Option<FinishMethod>,
    /// The branch to merge, if another one than the recorded one is checked out
    #[arg(long, value_name = "NAME", value_parser = BranchName::parse, hide_short_help = true)]
    pub branch: Option<BranchName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CleanupArgs {
    /// The worktrees to remove
    pub kind: CleanupKind,
    /// Only say what would be removed
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CleanupKind {
    Merged,
    Stale,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct AdoptArgs {
    /// The whole path of the worktree
    pub path: String,
}
