//! `grove doctor`

use std::process::ExitCode;

use grove_engine::doctor::{Verdict, examine};
use owo_colors::OwoColorize;
use serde_json::json;

use super::{Context, Done};
use crate::output;

pub async fn run(context: &Context) -> Done {
    let store = context.store().await?;
    let waiting = output::spinner("Looking at everything", context.json);
    let checks = examine(&context.git, &store, &context.settings, &context.isolation(&store)).await;
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
    store.close().await;
    Ok(ExitCode::from(u8::from(!well)))
}
