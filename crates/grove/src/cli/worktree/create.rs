//! `grove worktree create NAME`

use std::process::ExitCode;

use grove_environments::codebases::CodebaseChoice;
use grove_environments::create::decide::WorkRelation;
use grove_environments::create::{CreateHints, CreateMethod, CreateOutcome, CreateRequest, EnvironmentCreator};
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::problem::Problem;
use grove_model::{BranchName, CommitSha, PullRequestHead, Work, WorkKind};

use super::{CliContext, CommandResult, view_of};
use crate::api_json::WorktreeJson;
use crate::{output, words};

#[derive(Debug, clap::Args)]
pub struct WorktreeCreateArgs {
    /// The branch, and the name of the task unless --kind and --id say which work it is
    #[arg(required_unless_present_all = ["kind", "id"], allow_hyphen_values = true)]
    name: Option<String>,
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
    /// Start from this branch, tag or commit
    #[arg(long, visible_alias = "base", value_name = "REF")]
    from: Option<String>,
    /// What kind of work it is: issue, pr, review, thread or task
    #[arg(long, requires = "id", value_parser = |text: &str| text.parse::<WorkKind>())]
    kind: Option<WorkKind>,
    /// The number of the issue or pull request, or the text of the thread or task
    #[arg(long, requires = "kind")]
    id: Option<String>,
    /// For a pull request: it comes from a fork
    #[arg(long, requires = "kind")]
    fork: bool,
    /// For a pull request or review: the commit to look at
    #[arg(long, requires = "kind", value_parser = |text: &str| text.parse::<CommitSha>())]
    sha: Option<CommitSha>,
    /// An issue that the work is linked with, as `Fixes #N` would; may be given several times
    #[arg(long, value_name = "N")]
    linked_issue: Vec<u64>,
    /// A pull request that the work is linked with; may be given several times
    #[arg(long, value_name = "N")]
    linked_pr: Vec<u64>,
    /// A branch that the work may be on already, in a worktree that Grovekeeper did not create
    #[arg(long, value_name = "BRANCH")]
    suggested_branch: Option<String>,
}

pub async fn run(context: &CliContext, args: WorktreeCreateArgs) -> CommandResult {
    let wish = build_create_request(&args)?;
    let store = context.open_store().await?;
    let waiting = output::start_spinner("Making the worktree", context.json);
    let made = async {
        let (codebase, choice) =
            context.codebases_in(&store).meant_or_registered(args.codebase.as_deref(), &context.cwd).await?;
        if choice == CodebaseChoice::OnlyOne && !context.json {
            waiting.suspend(|| output::print_note(&format!("Using codebase {}.", codebase.name)));
        }
        let environments = context.environments_in(&store).reporting_progress(output::progress_callback(&waiting));
        let outcome = environments.create_environment(&codebase, &wish).await?;
        let view = match &outcome.how {
            CreateMethod::Created(new) => {
                environments.view_of_new(&codebase, &outcome.environment, new.facts.clone()).await?
            }
            _ => view_of(context, &store, &codebase, outcome.environment.clone()).await?,
        };
        Ok::<_, Problem>((outcome, view))
    };
    let made = made.await;
    waiting.finish_and_clear();
    let (outcome, view) = made?;
    if let CreateMethod::Created(new) = &outcome.how {
        new.notes.iter().for_each(|note| output::print_warning(note));
    }
    if let (Some(sha), Some(head)) = (&args.sha, &view.head_sha)
        && head != sha.as_str()
    {
        output::print_warning(&format!(
            "the worktree that was there already is at {}, not at {}",
            &head[..7],
            sha.short_sha()
        ));
    }
    if context.json {
        output::print_json(&WorktreeJson::from(view));
    } else {
        print_outcome(&outcome, &view, args.sha.as_ref());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Builds the request from the arguments, checked before anything starts.
fn build_create_request(args: &WorktreeCreateArgs) -> Result<CreateRequest, Problem> {
    let named = args.name.as_deref().map(BranchName::parse).transpose()?;
    let pull_request = matches!(args.kind, Some(WorkKind::Pr | WorkKind::Review));
    if (args.fork && args.kind != Some(WorkKind::Pr)) || (args.sha.is_some() && !pull_request) {
        return Err(words::misplaced_create_flags());
    }
    let work = match (args.kind, args.id.as_deref(), &named) {
        (Some(kind), Some(id), named) => {
            // The name of a review is the name of its own branch.
            let of_pull_request = named.as_ref().filter(|_| kind == WorkKind::Pr);
            Work::from_kind(kind, id, PullRequestHead::known_by(of_pull_request, args.sha.as_ref(), args.fork))?
        }
        (_, _, Some(name)) => Work::for_task(name.as_str())?,
        _ => return Err(words::no_name()),
    };
    let by = EnvironmentCreator { platform: Some("cli".to_owned()), user: std::env::var("USER").ok() };
    let suggested_branch = args.suggested_branch.as_deref().map(BranchName::parse).transpose()?;
    let hints = CreateHints {
        linked_issues: args.linked_issue.clone(),
        linked_prs: args.linked_pr.clone(),
        suggested_branch,
        legacy_path: None,
    };
    Ok(CreateRequest { work, branch: named, from: args.from.clone(), hints, conversation: None, by })
}

fn print_outcome(outcome: &CreateOutcome, view: &EnvironmentView, sha: Option<&CommitSha>) {
    let branch = output::style_strong(&format!("`{}`", view.branch));
    output::print_line(&match (&outcome.how, sha.filter(|sha| view.head_sha.as_deref() == Some(sha.as_str()))) {
        (_, Some(sha)) => format!("Reviewing PR at commit `{}` (branch: {branch})", sha.short_sha()),
        (CreateMethod::Created(_), _) => format!("Working in isolated branch {branch}"),
        (CreateMethod::Shared(WorkRelation::LinkedPr(number)), _) => format!("Reusing worktree from pr #{number}"),
        (CreateMethod::Shared(WorkRelation::LinkedIssue(number)), _) => {
            format!("Reusing worktree from issue #{number}")
        }
        (CreateMethod::Adopted(_), _) => format!("Working in branch {branch}, in a worktree that was there already"),
        (CreateMethod::Used | CreateMethod::Shared(_), _) => {
            format!("Working in isolated branch {branch}, which was there already")
        }
    });
    let base = match (&view.base, &view.base_sha) {
        (Some(base), Some(sha)) => format!("{base} at {}", &sha[..7]),
        _ => String::new(),
    };
    output::print_fields(&[("path", view.path.display().to_string()), ("base", base)]);
}
