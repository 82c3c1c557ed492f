//! `/push [--branch NAME]` and `/pr [TITLE]`

use grove_environments::problem::Problem;
use grove_environments::words::done;
use grove_git::push::PushOutcome;
use grove_model::{Codebase, Environment};

use crate::commands::slash_command::{PrArgs, PushArgs};
use crate::commands::worktree::own_environment;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn push_branch(context: &TurnContext<'_>, PushArgs { branch }: &PushArgs) -> Result<String, Problem> {
    let (codebase, mut environment) = own_environment(context).await?;
    let pushed = context.conversations.environments.push_branch(&codebase, &environment, branch.as_ref()).await?;
    environment.branch = branch.clone().unwrap_or(environment.branch);
    Ok(in_words(context, &codebase, &environment, &pushed).await)
}

pub async fn open_pull_request(context: &TurnContext<'_>, PrArgs { title }: &PrArgs) -> Result<String, Problem> {
    let title = title.as_ref().and_then(|title| parse_title(&title.0));
    let (codebase, environment) = own_environment(context).await?;
    let (pushed, opened) = context.conversations.environments.open_pull_request(&codebase, &environment, title).await?;
    Ok([in_words(context, &codebase, &environment, &pushed).await, done::describe_pull_request(&opened).for_chat()]
        .join("\n"))
}

/// Returns the title that follows a command in its line. It may contain anything, and may be quoted.
fn parse_title(text: &str) -> Option<&str> {
    let line = text.lines().next()?.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| line.strip_prefix(quote)?.strip_suffix(quote));
    Some(quoted.unwrap_or(line).trim()).filter(|title| !title.is_empty())
}

/// Describes what was pushed and what was not.
async fn in_words(
    context: &TurnContext<'_>,
    codebase: &Codebase,
    environment: &Environment,
    pushed: &PushOutcome,
) -> String {
    let uncommitted = context.conversations.environments.count_uncommitted_files(codebase, environment).await;
    let left = uncommitted.and_then(done::left_behind);
    replies::join_lines([done::describe_pushed(environment.branch.as_str(), pushed)].into_iter().chain(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_may_be_anything() {
        let cases = [
            (" Don't crash", Some("Don't crash")),
            ("  'Fix: the \"login\"' ", Some("Fix: the \"login\"")),
            (" --draft x\nmore", Some("--draft x")),
            (" a\\b #1 $x", Some("a\\b #1 $x")),
            ("\nmore", None),
            (" \"\"", None),
            ("", None),
        ];
        for (text, title) in cases {
            assert_eq!(parse_title(text), title, "{text:?}");
        }
    }
}
