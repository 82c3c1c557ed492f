//! `grove doctor`

use std::process::ExitCode;

use grove_engine::doctor::{Verdict, bad_store, examine, examine_machine};
use owo_colors::OwoColorize;
use serde_json::json;

use super::{Context, Done};
use crate::output;

pub async fn run(context: &Context) -> Done {
    let waiting = output::spinner("Looking at everything", context.json);
    let mut checks = examine_machine(&context.git, &context.settings).await;
    let store = context.store().await;
    match &store {
        Ok(store) => checks.extend(examine(&context.git, store, &context.isolation(store)).await),
        Err(problem) => checks.push(bad_store(problem)),
    }
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
