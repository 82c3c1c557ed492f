//! `grove doctor`

use std::process::ExitCode;

use grove_agents::health::examine_agents;
use grove_environments::maintenance::doctor::{Verdict, bad_store, examine, examine_machine, examine_privacy};
use grove_platforms::github::doctor::checkup;
use owo_colors::OwoColorize;
use serde_json::json;

use super::{Context, Done};
use crate::output;

pub async fn run(context: &Context) -> Done {
    let waiting = output::spinner("Looking at everything", context.json);
    let mut checks = examine_machine(&context.git, &context.settings).await;
    checks.extend(examine_agents(&context.settings).await);
    checks.extend(examine_privacy(context.settings.home(), &context.exposed));
    let store = context.store().await;
    // Without them only what is listed is looked at; the store's own check says why.
    let codebases = match &store {
        Ok(store) => store.codebases().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let here = async {
        match &store {
            Ok(store) => examine(&context.git, store, &context.isolation(store)).await,
            Err(problem) => vec![bad_store(problem)],
        }
    };
    let github = context.settings.github();
    let (here, github) = tokio::join!(here, checkup(&github, &codebases, &context.git));
    checks.extend(here);
    checks.extend(github);
    waiting.finish_and_clear();
    let well = checks.iter().all(|check| check.verdict != Verdict::Bad);
    if context.json {
        output::json(&json!({ "well": well, "checks": checks }));
    } else {
        for check in &checks {
            let mark = match check.verdict {
                Verdict::Good => "ok".green().to_string(),
                Verdict::Fixed => "fixed".cyan().to_string(),
                Verdict::Warning => "warning".yellow().to_string(),
                Verdict::Bad => "bad".red().to_string(),
            };
            output::line(&format!("{mark}  {}: {}", check.name, check.detail));
            if !check.hint.is_empty() {
                output::line(&format!("    {}", output::dim(&check.hint)));
            }
        }
    }
    if let Ok(store) = store {
        store.close().await;
    }
    Ok(ExitCode::from(u8::from(!well)))
}
