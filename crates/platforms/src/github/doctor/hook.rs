//! Checks of webhooks: whether GitHub reaches us, by its own records of webhooks and their responses.

use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck, new_check};
use grove_git::redact;

use crate::github::api::{ApiError, AppWebhook, RepositoryWebhook, WebhookConfig, WebhookLastResponse};
use crate::github::doctor::judge::not_known;
use crate::github::repo::RepoName;

/// The events that webhooks must send.
const REQUIRED_EVENTS: [&str; 5] =
    ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];

/// The path where webhooks come in.
const WEBHOOK_PATH: &str = "/webhooks/github";

impl WebhookConfig {
    /// Tells whether the webhook leads to a server such as ours.
    pub(crate) fn is_ours(&self) -> bool {
        let path = self.url.as_deref().unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
        path.trim_end_matches('/').ends_with(WEBHOOK_PATH)
    }
}

impl AppWebhook {
    pub(crate) fn is_ours(&self) -> bool {
        self.config.is_ours()
    }
}

/// Checks the webhook of the App.
pub(crate) fn of_app(asked: &Result<AppWebhook, ApiError>, events: &[String]) -> DoctorCheck {
    let name = "github webhook";
    match asked {
        Ok(hook) if hook.is_ours() => judge_webhook(name, true, events, &hook.config, &hook.last_response),
        Ok(_) => {
            let detail = format!("that of the App does not lead to `{WEBHOOK_PATH}`");
            let hint = format!(
                "Set it to https://YOUR-HOST{WEBHOOK_PATH} in the App, unless the repositories have their own."
            );
            new_check(name, CheckResult::Warning, detail, hint)
        }
        Err(error) => not_known(name, &error.to_string()),
    }
}

/// Checks the webhooks of a repository: the best of those that lead to us counts.
pub(crate) fn of_repository(repo: &RepoName, asked: &Result<Vec<RepositoryWebhook>, ApiError>) -> DoctorCheck {
    let name = format!("github webhook {repo}");
    let hooks = match asked {
        Ok(hooks) => hooks,
        Err(ApiError::NotFound(_) | ApiError::Forbidden(_)) => {
            let hint = "An admin finds it in the repository's settings, with what it was answered; or use an App.";
            return new_check(&name, CheckResult::Warning, "not known: only an admin of the repository may look", hint);
        }
        Err(error) => return not_known(&name, &error.to_string()),
    };
    let ours = hooks.iter().filter(|hook| hook.config.is_ours());
    let judged = ours.map(|hook| judge_webhook(&name, hook.active, &hook.events, &hook.config, &hook.last_response));
    let rank = |check: &DoctorCheck| match check.verdict {
        CheckResult::Good | CheckResult::Fixed => 0,
        CheckResult::Warning => 1,
        CheckResult::Bad => 2,
    };
    judged.min_by_key(rank).unwrap_or_else(|| {
        let hint = format!(
            "Add one in the repository's settings that leads to https://YOUR-HOST{WEBHOOK_PATH}, unless its organisation has one."
        );
        new_check(&name, CheckResult::Warning, format!("none leads to `{WEBHOOK_PATH}`"), hint)
    })
}

fn judge_webhook(
    name: &str,
    active: bool,
    events: &[String],
    config: &WebhookConfig,
    last: &WebhookLastResponse,
) -> DoctorCheck {
    let url = redact::redact_credentials(config.url.as_deref().unwrap_or_default());
    if !active {
        return new_check(
            name,
            CheckResult::Bad,
            format!("{url} is switched off"),
            "Make it active in its settings on GitHub.",
        );
    }
    if config.secret.as_deref().unwrap_or_default().is_empty() {
        let hint = "Write `adapters.github.webhook_secret` into it on GitHub.";
        return new_check(
            name,
            CheckResult::Bad,
            format!("{url} has no secret, so all that it tells is refused"),
            hint,
        );
    }
    if let Some(failed) = failed_delivery_check(name, &url, last) {
        return failed;
    }
    let tells = |event: &&str| !events.iter().any(|told| told == event || told == "*");
    let untold: Vec<&str> = REQUIRED_EVENTS.into_iter().filter(|event| tells(event)).collect();
    if !untold.is_empty() {
        let detail = format!("{url} does not tell {}", untold.join(", "));
        return new_check(name, CheckResult::Warning, detail, "Choose these events in its settings on GitHub.");
    }
    let detail = match last.code {
        Some(code) => format!("{url}, last answered {code}"),
        None => format!("{url}, nothing was sent yet"),
    };
    new_check(name, CheckResult::Good, detail, "")
}

/// Returns a check if the last delivery failed.
fn failed_delivery_check(name: &str, url: &str, last: &WebhookLastResponse) -> Option<DoctorCheck> {
    let code = last.code.filter(|code| !(200..300).contains(code))?;
    let (verdict, why, hint) = match code {
        401 => (
            CheckResult::Bad,
            "was refused with 401: its secret is another one".to_owned(),
            "Write the same secret into the webhook and into `adapters.github.webhook_secret`, then redeliver it there.",
        ),
        404 => (
            CheckResult::Bad,
            "was answered 404: no server listens there".to_owned(),
            "Check its address, and that the server was started with `adapters.github.webhook_secret`.",
        ),
        0 | 408 | 502..=504 => {
            let said = last.message.as_deref().map(|said| crate::clean::one_line(said, 100)).unwrap_or_default();
            let said = if said.is_empty() { format!("status {code}") } else { said };
            (
                CheckResult::Warning,
                format!("failed: GitHub could not reach it ({said})"),
                "Check that `grove serve` runs, and that its address is reached from outside; then redeliver it on GitHub.",
            )
        }
        code => (
            CheckResult::Warning,
            format!("was answered {code}"),
            "The server's log says why; the delivery can be sent again on GitHub.",
        ),
    };
    Some(new_check(name, verdict, format!("the last delivery to {url} {why}"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook_config(url: &str) -> WebhookConfig {
        WebhookConfig { url: Some(url.to_owned()), secret: Some("********".to_owned()) }
    }

    #[test]
    fn which_hooks_lead_to_us() {
        for url in ["https://h/webhooks/github", "https://h/grove/webhooks/github/", "https://h:1/webhooks/github?a=b"]
        {
            assert!(webhook_config(url).is_ours(), "{url}");
        }
        for url in ["", "https://h/", "https://h/webhooks/gitlab", "https://h/?to=/webhooks/github"] {
            assert!(!webhook_config(url).is_ours(), "{url}");
        }
    }

    #[test]
    fn what_the_last_answer_means() {
        let events = ["*".to_owned()];
        for (code, verdict, words) in [
            (None, CheckResult::Good, "nothing was sent yet"),
            (Some(202), CheckResult::Good, "last answered 202"),
            (Some(401), CheckResult::Bad, "its secret is another one"),
            (Some(404), CheckResult::Bad, "no server listens there"),
            (Some(413), CheckResult::Warning, "was answered 413"),
            (Some(500), CheckResult::Warning, "was answered 500"),
            (Some(0), CheckResult::Warning, "could not reach it (status 0)"),
            (Some(504), CheckResult::Warning, "could not reach it (status 504)"),
        ] {
            let last = WebhookLastResponse { code, message: None };
            let judged = judge_webhook("hook", true, &events, &webhook_config("https://h/webhooks/github"), &last);
            assert_eq!(judged.verdict, verdict, "{judged:?}");
            assert!(judged.detail.as_str().ends_with(words), "{judged:?}");
        }
    }
}
