//! Checks whether Slack works as it is configured. Nothing is written anywhere, and every request has a timeout.

use std::time::Duration;

use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck, new_check};
use grove_environments::settings::SlackSettings;

use crate::retry::ChatApiError;
use crate::slack::adapter::build_slack_api;

/// The time to wait for one response.
const CHECK_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs all checks; returns none if Slack is not configured.
pub async fn run_slack_checkup(settings: &SlackSettings) -> Vec<DoctorCheck> {
    let has_input = settings.app_token.is_some() || settings.signing_secret.is_some();
    if settings.bot_token.is_none() {
        return if has_input { vec![no_bot_token()] } else { Vec::new() };
    }
    let mut checks = check_settings(settings);
    let api = match build_slack_api(settings) {
        Ok(api) => api,
        Err(error) => {
            checks.push(new_check(
                "slack",
                CheckResult::Bad,
                error.to_string(),
                "Fix `adapters.slack` in GROVE_HOME/config.toml.",
            ));
            return checks;
        }
    };
    let account = limit(api.test_token()).await;
    let described = account.as_ref().map(|account| format!("connected as {} in {}", account.user, account.team));
    checks.push(check_token(
        "slack token",
        described,
        "Copy the bot token (`xoxb-…`) of your app into `adapters.slack.bot_token`.",
    ));
    if settings.app_token.is_some() {
        let opened = limit(api.open_socket()).await;
        let opened = opened.as_ref().map(|_| "Socket Mode is available".to_owned());
        let hint = "Turn Socket Mode on, and copy an app-level token (`xapp-…`) with the scope `connections:write` into `adapters.slack.app_token`.";
        checks.push(check_token("slack socket", opened, hint));
    }
    checks
}

fn no_bot_token() -> DoctorCheck {
    let hint = "Set `adapters.slack.bot_token` to the bot token (`xoxb-…`) of your app.";
    new_check("slack", CheckResult::Bad, "there is no bot token, so Slack is not connected", hint)
}

/// Checks what the settings alone tell.
fn check_settings(settings: &SlackSettings) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    if settings.app_token.is_none() && settings.signing_secret.is_none() {
        let hint =
            "Set `adapters.slack.app_token` for Socket Mode, or `adapters.slack.signing_secret` for the Events API.";
        checks.push(new_check("slack events", CheckResult::Warning, "Slack cannot send messages to grove", hint));
    }
    if settings.chat.allowed_users.is_empty() && !settings.chat.allow_all {
        let hint = "List the ids of users (such as `U012AB3CD`) in `adapters.slack.allowed_users`.";
        checks.push(new_check("slack access", CheckResult::Warning, "no user may direct the agent", hint));
    }
    checks
}

/// Converts the result of a request into a check; no response is neither good nor bad.
fn check_token(name: &str, result: Result<String, &ChatApiError>, hint: &str) -> DoctorCheck {
    match result {
        Ok(detail) => new_check(name, CheckResult::Good, detail, ""),
        Err(error @ (ChatApiError::BadCredentials { .. } | ChatApiError::Refused { .. })) => {
            new_check(name, CheckResult::Bad, error.to_string(), hint)
        }
        Err(error) => new_check(name, CheckResult::Warning, error.to_string(), "Run `grove doctor` again later."),
    }
}

async fn limit<T>(request: impl Future<Output = Result<T, ChatApiError>>) -> Result<T, ChatApiError> {
    let late = || ChatApiError::Unavailable { platform: "Slack", what: "no response in time".to_owned() };
    tokio::time::timeout(CHECK_REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| Err(late()))
}
