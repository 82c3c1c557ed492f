//! What GitHub's own word is worth on whether it reaches us: its webhooks, and what they were answered.

use grove_environments::maintenance::doctor::{Check, Verdict, check};
use grove_git::redact;

use crate::github::api::{ApiError, AppHook, Hook, HookConfig, LastResponse};
use crate::github::doctor::judge::not_known;
use crate::github::repo::RepoName;

/// What must be told to us.
const EVENTS: [&str; 5] =
    ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];

/// Where webhooks come in.
const PATH: &str = "/webhooks/github";

impl HookConfig {
    /// Whether it leads to a server such as ours.
    pub(crate) fn is_ours(&self) -> bool {
        let path = self.url.as_deref().unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
        path.trim_end_matches('/').ends_with(PATH)
    }
}

impl AppHook {
    pub(crate) fn is_ours(&self) -> bool {
        self.config.is_ours()
    }
}

/// The webhook of the App.
pub(crate) fn of_app(asked: &Result<AppHook, ApiError>, events: &[String]) -> Check {
    let name = "github webhook";
    match asked {
        Ok(hook) if hook.is_ours() => judged(name, true, events, &hook.config, &hook.last_response),
        Ok(_) => {
            let detail = format!("that of the App does not lead to `{PATH}`");
            let hint = format!("Set it to https://YOUR-HOST{PATH} in the App, unless the repositories have their own.");
            check(name, Verdict::Warning, detail, hint)
        }
        Err(error) => not_known(name, &error.to_string()),
    }
}

/// The webhooks of a repository: the best of those that lead to us.
pub(crate) fn of_repository(repo: &RepoName, asked: &Result<Vec<Hook>, ApiError>) -> Check {
    let name = format!("github webhook {repo}");
    let hooks = match asked {
        Ok(hooks) => hooks,
        Err(ApiError::NotFound(_) | ApiError::Forbidden(_)) => {
            let hint = "An admin finds it in the repository's settings, with what it was answered; or use an App.";
            return check(&name, Verdict::Warning, "not known: only an admin of the repository may look", hint);
        }
        Err(error) => return not_known(&name, &error.to_string()),
    };
    let ours = hooks.iter().filter(|hook| hook.config.is_ours());
    let judged = ours.map(|hook| judged(&name, hook.active, &hook.events, &hook.config, &hook.last_response));
    let rank = |check: &Check| match check.verdict {
        Verdict::Good | Verdict::Fixed => 0,
        Verdict::Warning => 1,
        Verdict::Bad => 2,
    };
    judged.min_by_key(rank).unwrap_or_else(|| {
        let hint = format!(
            "Add one in the repository's settings that leads to https://YOUR-HOST{PATH}, unless its organisation has one."
        );
        check(&name, Verdict::Warning, format!("none leads to `{PATH}`"), hint)
    })
}

fn judged(name: &str, active: bool, events: &[String], config: &HookConfig, last: &LastResponse) -> Check {
    let url = redact::credentials(config.url.as_deref().unwrap_or_default());
    if !active {
        return check(
            name,
            Verdict::Bad,
            format!("{url} is switched off"),
            "Make it active in its settings on GitHub.",
        );
    }
    if config.secret.as_deref().unwrap_or_default().is_empty() {
        let hint = "Write `adapters.github.webhook_secret` into it on GitHub.";
        return check(name, Verdict::Bad, format!("{url} has no secret, so all that it tells is refused"), hint);
    }
    if let Some(failed) = failed(name, &url, last) {
        return failed;
    }
    let tells = |event: &&str| !events.iter().any(|told| told == event || told == "*");
    let untold: Vec<&str> = EVENTS.into_iter().filter(|event| tells(event)).collect();
    if !untold.is_empty() {
        let detail = format!("{url} does not tell {}", untold.join(", "));
        return check(name, Verdict::Warning, detail, "Choose these events in its settings on GitHub.");
    }
    let detail = match last.code {
        Some(code) => format!("{url}, last answered {code}"),
        None => format!("{url}, nothing was sent yet"),
    };
    check(name, Verdict::Good, detail, "")
}

/// What went wrong with the last delivery.
fn failed(name: &str, url: &str, last: &LastResponse) -> Option<Check> {
    let code = last.code.filter(|code| !(200..300).contains(code))?;
    let (verdict, why, hint) = match code {
        401 => (
            Verdict::Bad,
            "was refused with 401: its secret is another one".to_owned(),
            "Write the same secret into the webhook and into `adapters.github.webhook_secret`, then redeliver it there.",
        ),
        404 => (
            Verdict::Bad,
            "was answered 404: nobody listens there".to_owned(),
            "Check its address, and that the server was started with `adapters.github.webhook_secret`.",
        ),
        0 | 408 | 502..=504 => {
            let said = last.message.as_deref().map(|said| crate::clean::one_line(said, 100)).unwrap_or_default();
            let said = if said.is_empty() { format!("status {code}") } else { said };
            (
                Verdict::Warning,
                format!("failed: GitHub could not reach it ({said})"),
                "Check that `grove serve` runs, and that its address is reached from outside; then redeliver it on GitHub.",
            )
        }
        code => (
            Verdict::Warning,
            format!("was answered {code}"),
            "The server's log says why; the delivery can be sent again on GitHub.",
        ),
    };
    Some(check(name, verdict, format!("the last delivery to {url} {why}"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> HookConfig {
        HookConfig { url: Some(url.to_owned()), secret: Some("********".to_owned()) }
    }

    #[test]
    fn which_hooks_lead_to_us() {
        for url in ["https://h/webhooks/github", "https://h/grove/webhooks/github/", "https://h:1/webhooks/github?a=b"]
        {
            assert!(config(url).is_ours(), "{url}");
        }
        for url in ["", "https://h/", "https://h/webhooks/gitlab", "https://h/?to=/webhooks/github"] {
            assert!(!config(url).is_ours(), "{url}");
        }
    }

    #[test]
    fn what_the_last_answer_means() {
        let events = ["*".to_owned()];
        for (code, verdict, words) in [
            (None, Verdict::Good, "nothing was sent yet"),
            (Some(202), Verdict::Good, "last answered 202"),
            (Some(401), Verdict::Bad, "its secret is another one"),
            (Some(404), Verdict::Bad, "nobody listens there"),
            (Some(413), Verdict::Warning, "was answered 413"),
            (Some(500), Verdict::Warning, "was answered 500"),
            (Some(0), Verdict::Warning, "could not reach it (status 0)"),
            (Some(504), Verdict::Warning, "could not reach it (status 504)"),
        ] {
            let last = LastResponse { code, message: None };
            let judged = judged("hook", true, &events, &config("https://h/webhooks/github"), &last);
            assert_eq!(judged.verdict, verdict, "{judged:?}");
            assert!(judged.detail.ends_with(words), "{judged:?}");
        }
    }
}
