//! `grove doctor`

use std::process::ExitCode;

use grove_agents::health::examine_agents;
use grove_environments::maintenance::doctor::{
    CheckResult, bad_store, examine_installation, examine_machine, examine_privacy,
};
use grove_platforms::github::doctor::run_github_checkup;
use grove_platforms::slack::doctor::run_slack_checkup;
use owo_colors::OwoColorize;
use serde_json::json;

use super::{CliContext, CommandResult};
use crate::output;

pub async fn run(context: &CliContext) -> CommandResult {
    let waiting = output::start_spinner("Looking at everything", context.json);
    let mut checks = examine_machine(&context.git, &context.settings).await;
    checks.extend(examine_agents(&context.settings).await);
    checks.extend(examine_privacy(context.settings.home_path(), &context.exposed));
    let store = context.open_store().await;
    // Without the codebases the GitHub check covers only the repositories in the settings; the store's own
    // check says why.
    let codebases = match &store {
        Ok(store) => store.list_codebases().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let here = async {
        match &store {
            Ok(store) => examine_installation(store, &context.environments_in(store)).await,
            Err(problem) => vec![bad_store(problem)],
        }
    };
    let (github, slack) = (context.settings.github_settings(), context.settings.slack_settings());
    let (here, github, slack) =
        tokio::join!(here, run_github_checkup(&github, &codebases, &context.git), run_slack_checkup(&slack));
    checks.extend(here);
    checks.extend(github);
    checks.extend(slack);
    waiting.finish_and_clear();
    let well = checks.iter().all(|check| check.verdict != CheckResult::Bad);
    if context.json {
        output::print_json(&json!({ "well": well, "checks": checks }));
    } else {
        for check in &checks {
            let mark = match check.verdict {
                CheckResult::Good => "ok".green().to_string(),
                CheckResult::Fixed => "fixed".cyan().to_string(),
                CheckResult::Warning => "warning".yellow().to_string(),
                CheckResult::Bad => "bad".red().to_string(),
            };
            output::print_line(&format!("{mark}  {}: {}", check.name, check.detail));
            if !check.hint.is_empty() {
                output::print_line(&format!("    {}", output::style_dim(&check.hint.for_terminal())));
            }
        }
    }
    if let Ok(store) = store {
        store.close().await;
    }
    Ok(ExitCode::from(u8::from(!well)))
}
