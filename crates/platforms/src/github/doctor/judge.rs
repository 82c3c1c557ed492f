//! Converts findings to checks that people read. Sends no requests.

use std::collections::BTreeMap;

use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck, new_check};
use grove_environments::settings::GithubSettings;
use grove_git::GitError;
use jiff::{SignedDuration, Timestamp};

use crate::github::adapter::GithubSettingsError;
use crate::github::api::{ApiError, AppInstallation, CredentialRights, CredentialStatus, RateLimit};
use crate::github::doctor::{CheckedRepository, RepositoryFindings};
use crate::github::repo::RepoName;
use crate::github::web_address::GithubWeb;
use crate::mention::BotName;

/// A shorter secret can be guessed.
const MIN_SECRET_LENGTH: usize = 16;
/// A token that expires this soon gets a warning.
const TOKEN_EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The permissions that an App must be able to write.
const REQUIRED_PERMISSIONS: [&str; 3] = ["contents", "issues", "pull_requests"];

const GITHUB_CHECK_NAME: &str = "github";
const TOKEN_CHECK_NAME: &str = "github token";
const SECRET_CHECK_NAME: &str = "github webhook secret";

/// Returns the checks that need no response of GitHub.
pub(crate) fn check_settings(settings: &GithubSettings) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    if BotName::parse(&settings.bot_name).is_none() {
        let bad = GithubSettingsError::BotName(settings.bot_name.clone());
        checks.push(new_check(
            GITHUB_CHECK_NAME,
            CheckResult::Bad,
            bad.to_string(),
            "Set it to a name such as `grove`.",
        ));
    }
    for name in settings.repos.iter().filter(|name| RepoName::parse(name).is_none()) {
        let bad = GithubSettingsError::Repository(name.clone());
        checks.push(new_check(
            GITHUB_CHECK_NAME,
            CheckResult::Bad,
            bad.to_string(),
            "Correct it in GROVE_HOME/config.toml.",
        ));
    }
    if settings.poll.is_none() {
        checks.push(check_secret(&settings.webhook_secrets));
    }
    checks
}

fn check_secret(secrets: &[String]) -> DoctorCheck {
    let mut secrets = secrets.iter().filter(|secret| !secret.is_empty()).peekable();
    if secrets.peek().is_none() {
        let hint =
            "Set `adapters.github.webhook_secret`, the same as in the webhook; without it only `/push` and `/pr` work.";
        return new_check(
            SECRET_CHECK_NAME,
            CheckResult::Warning,
            "not set, so nothing that GitHub tells is heard",
            hint,
        );
    }
    if secrets.any(|secret| secret.chars().count() < MIN_SECRET_LENGTH) {
        let detail = format!("shorter than {MIN_SECRET_LENGTH} characters, so it can be guessed");
        let hint = "Set a longer one, here and in the webhook; `openssl rand -hex 32` makes one. Both hold in a list.";
        return new_check(SECRET_CHECK_NAME, CheckResult::Warning, detail, hint);
    }
    new_check(SECRET_CHECK_NAME, CheckResult::Good, "set", "")
}

pub(crate) fn no_credentials() -> DoctorCheck {
    let hint = "Set `adapters.github.token`, or `app_id` and `private_key_file`; what GitHub tells is kept until then.";
    new_check(GITHUB_CHECK_NAME, CheckResult::Bad, "neither a token nor an App is configured", hint)
}

pub(crate) fn unusable_settings_check(error: &GithubSettingsError) -> DoctorCheck {
    new_check(
        GITHUB_CHECK_NAME,
        CheckResult::Bad,
        error.to_string(),
        "Correct `[adapters.github]` in GROVE_HOME/config.toml.",
    )
}

/// Returns a check whose result GitHub did not tell.
pub(crate) fn not_known(name: &str, why: &str) -> DoctorCheck {
    let hint = "Try again later, or check that this machine reaches `adapters.github.api_url`.";
    new_check(name, CheckResult::Warning, format!("not known: {why}"), hint)
}

/// Checks our account and its credentials.
pub(crate) fn check_credentials(
    asked: &Result<CredentialStatus, ApiError>,
    is_app: bool,
    web: &GithubWeb,
    now: Timestamp,
) -> Vec<DoctorCheck> {
    let standing = match asked {
        Ok(standing) => standing,
        Err(error) => return vec![not_standing(error, is_app, web)],
    };
    let name = &standing.name;
    let mut checks = match &standing.rights {
        CredentialRights::Scopes(scopes) => {
            let mut checks =
                vec![new_check(GITHUB_CHECK_NAME, CheckResult::Good, format!("as {name}, with a classic token"), "")];
            if !scopes.iter().any(|scope| scope == "repo" || scope == "public_repo") {
                let has = if scopes.is_empty() { "none".to_owned() } else { scopes.join(", ") };
                let detail = format!("has not the scope `repo`; it has {has}");
                let hint = format!("Give it `repo` at {}.", web.page_url("settings/tokens"));
                checks.push(new_check(TOKEN_CHECK_NAME, CheckResult::Bad, detail, hint));
            }
            checks
        }
        CredentialRights::Untold => {
            vec![new_check(GITHUB_CHECK_NAME, CheckResult::Good, format!("as {name}, with a token"), "")]
        }
        CredentialRights::App { permissions, installed, .. } => check_app(name, permissions, installed, web),
    };
    checks.extend(standing.until.as_deref().and_then(parse_timestamp).and_then(|until| runs_out(until, web, now)));
    checks.extend(standing.left.and_then(few_left));
    checks
}

fn not_standing(error: &ApiError, is_app: bool, web: &GithubWeb) -> DoctorCheck {
    match error {
        ApiError::BadCredentials(_) if is_app => {
            let hint = "Check that `app_id` is the App's, that `private_key_file` is one of its keys, and this machine's clock.";
            new_check(GITHUB_CHECK_NAME, CheckResult::Bad, "GitHub does not take the App's key", hint)
        }
        ApiError::BadCredentials(_) => {
            let hint =
                format!("Make a new one at {} and set `adapters.github.token`.", web.page_url("settings/tokens"));
            new_check(
                GITHUB_CHECK_NAME,
                CheckResult::Bad,
                "GitHub does not take the token: it ran out, was withdrawn or is wrong",
                hint,
            )
        }
        other => not_known(GITHUB_CHECK_NAME, &other.to_string()),
    }
}

fn check_app(
    name: &str,
    permissions: &BTreeMap<String, String>,
    installed: &[AppInstallation],
    web: &GithubWeb,
) -> Vec<DoctorCheck> {
    let at: Vec<&str> =
        installed.iter().filter_map(|at| at.account.as_ref()).map(|account| account.login.as_str()).collect();
    let mut checks = if installed.is_empty() {
        let hint = format!("Install it at {}.", web.page_url(&format!("apps/{name}/installations/new")));
        vec![new_check(
            GITHUB_CHECK_NAME,
            CheckResult::Bad,
            format!("as the App {name}, which is installed nowhere"),
            hint,
        )]
    } else {
        vec![new_check(
            GITHUB_CHECK_NAME,
            CheckResult::Good,
            format!("as the App {name}, installed at {}", at.join(", ")),
            "",
        )]
    };
    if let Some(missing) = missing_permissions(permissions) {
        let hint = "Change its permissions on GitHub; the account that installed it is asked to agree.";
        checks.push(new_check("github app", CheckResult::Bad, format!("may not write {missing}"), hint));
    }
    checks
}

/// Lists the permissions that an App may not write, with the access that it has instead.
fn missing_permissions(permissions: &BTreeMap<String, String>) -> Option<String> {
    let lacks = |what: &&str| permissions.get(*what).is_none_or(|word| word != "write" && word != "admin");
    let said = |what: &str| {
        let may = permissions.get(what).map_or("nothing", String::as_str);
        format!("{what} ({may})")
    };
    let missing: Vec<String> = REQUIRED_PERMISSIONS.into_iter().filter(lacks).map(said).collect();
    if missing.is_empty() { None } else { Some(missing.join(", ")) }
}

/// Parses `2026-01-31 12:00:00 UTC`, also with another zone; `None` if it cannot be parsed.
fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let text = text.trim().replace(" UTC", " +0000");
    Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", text).ok()
}

fn format_timestamp(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn runs_out(until: Timestamp, web: &GithubWeb, now: Timestamp) -> Option<DoctorCheck> {
    let hint = format!("Make a new one at {} and set `adapters.github.token`.", web.page_url("settings/tokens"));
    let soon = until.duration_since(now) < TOKEN_EXPIRY_WARNING;
    soon.then(|| {
        new_check(TOKEN_CHECK_NAME, CheckResult::Warning, format!("runs out at {}", format_timestamp(until)), hint)
    })
}

fn few_left(left: RateLimit) -> Option<DoctorCheck> {
    let few = left.requests.saturating_mul(10) < left.of;
    let until =
        Timestamp::from_second(left.reset).map(format_timestamp).unwrap_or_else(|_| "the hour is over".to_owned());
    let detail = format!("{} of {} requests are left until {until}", left.requests, left.of);
    let hint = "Something else uses the same account; give the bot one of its own, or an App.";
    few.then(|| new_check("github requests", CheckResult::Warning, detail, hint))
}

/// Checks whether a repository exists, and whether we may write to it.
pub(crate) fn check_repository(
    subject: &CheckedRepository,
    found: &RepositoryFindings,
    rights: Option<&CredentialRights>,
) -> Vec<DoctorCheck> {
    let name = format!("github {}", subject.repo);
    // Where no messages are accepted, only `/push` and `/pr` are affected.
    let bad = if subject.heard || subject.listed { CheckResult::Bad } else { CheckResult::Warning };
    let error = match (&found.installed, &found.seen) {
        (Some(Err(error)), _) | (_, Err(error)) => Some(error),
        (_, Ok(_)) => None,
    };
    if let Some(error) = error {
        return vec![out_of_sight(&name, bad, error, found.installed.is_some())];
    }
    let Ok(seen) = &found.seen else { return Vec::new() };
    let mut checks = Vec::new();
    if RepoName::parse(&seen.full_name).is_some_and(|now| !now.is_same_repo(&subject.repo)) {
        let hint = if subject.listed {
            format!("Write `{}` into `adapters.github.repos`.", seen.full_name)
        } else {
            "Change the remote's address in the codebase: `git remote set-url`.".to_owned()
        };
        checks.push(new_check(&name, bad, format!("is called {} now", seen.full_name), hint));
    }
    if seen.archived {
        let hint = "Unarchive it on GitHub, or work for it no longer.";
        checks.push(new_check(&name, CheckResult::Warning, "archived, so nothing can be written there", hint));
    }
    match (&found.installed, seen.permissions) {
        (Some(Ok(installed)), _) => checks.extend(check_installation(&name, bad, installed)),
        (_, Some(may)) if !may.push => {
            let hint = "Let the account of the token write there.";
            checks.push(new_check(&name, bad, "may be read, not written", hint));
        }
        (_, None) => checks.push(not_known(&name, "GitHub does not say what we may do there")),
        (_, Some(_)) => {}
    }
    if checks.is_empty() {
        let detail = match rights {
            Some(CredentialRights::Untold) | None => {
                "the account may write there; whether the token may, GitHub does not say"
            }
            Some(CredentialRights::Scopes(_) | CredentialRights::App { .. }) => "may be written",
        };
        checks.push(new_check(&name, CheckResult::Good, detail, ""));
    }
    checks
}

fn out_of_sight(name: &str, bad: CheckResult, error: &ApiError, is_app: bool) -> DoctorCheck {
    match error {
        ApiError::NotFound(_) if is_app => new_check(
            name,
            bad,
            "the App is not installed there",
            "Install it for this repository, or correct the name.",
        ),
        ApiError::NotFound(_) => {
            let hint = "Correct the name, or give the token access to it.";
            new_check(name, bad, "GitHub does not know it, or does not show it to us", hint)
        }
        ApiError::Forbidden(_) | ApiError::Refused { .. } | ApiError::BadCredentials(_) => {
            new_check(name, bad, error.to_string(), "Give the token access to it.")
        }
        other => not_known(name, &other.to_string()),
    }
}

/// Checks the permissions of an installation of the App.
fn check_installation(name: &str, bad: CheckResult, installed: &AppInstallation) -> Option<DoctorCheck> {
    if installed.suspended_at.is_some() {
        let hint = "The account that installed the App can take that back in its settings.";
        return Some(new_check(name, bad, "the App is suspended there", hint));
    }
    let missing = missing_permissions(&installed.permissions)?;
    let hint = "The account that installed the App has to agree to its permissions.";
    Some(new_check(name, bad, format!("the App may not write {missing} there"), hint))
}

/// Checks whether git may use the same credentials; `None` if it did not answer in time.
pub(crate) fn check_git_access(repo: &RepoName, answered: Option<Result<(), GitError>>) -> DoctorCheck {
    let name = "github git";
    match answered {
        Some(Ok(())) => new_check(name, CheckResult::Good, format!("{repo} can be fetched"), ""),
        Some(Err(GitError::Failed { line, .. })) if is_refusal(&line) => {
            let hint = "Check that the token, or the App, may read the repository's contents.";
            new_check(name, CheckResult::Bad, format!("{repo} cannot be fetched: {line}"), hint)
        }
        Some(Err(error)) => not_known(name, &error.reason_line()),
        None => not_known(name, "git did not answer in time"),
    }
}

/// Tells whether git was refused, by its own error line; otherwise it did not get that far.
fn is_refusal(line: &str) -> bool {
    let words = ["Authentication failed", "not found", "error: 401", "error: 403", "could not read", "get password"];
    words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_that_does_not_get_there_is_not_turned_away() {
        for line in [
            "Authentication failed for 'https://github.com/octo/shop.git/'",
            "repository 'https://github.com/octo/shop.git/' not found",
            "unable to access 'https://github.com/octo/shop.git/': The requested URL returned error: 403",
            "could not read Username for 'https://github.com': terminal prompts disabled",
            "unable to get password from user",
        ] {
            assert!(is_refusal(line), "{line}");
        }
        for line in [
            "unable to access 'https://github.com/octo/shop.git/': Could not resolve host: github.com",
            "unable to access 'https://github.com/octo/shop.git/': Failed to connect to github.com port 443",
            "unable to access 'https://github.com/octo/shop.git/': The requested URL returned error: 502",
        ] {
            assert!(!is_refusal(line), "{line}");
        }
    }

    #[test]
    fn when_a_token_runs_out_is_read_with_its_zone() {
        let noon: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        assert_eq!(parse_timestamp("2026-01-31 12:00:00 UTC"), Some(noon));
        assert_eq!(parse_timestamp("2026-01-31 13:00:00 +0100"), Some(noon));
        for nonsense in ["", "soon", "2026-01-31", "2026-13-31 12:00:00 UTC"] {
            assert_eq!(parse_timestamp(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_week_before_it_runs_out_is_soon() {
        let web = GithubWeb::of_api("https://api.github.com").unwrap();
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        assert!(runs_out(now + TOKEN_EXPIRY_WARNING, &web, now).is_none());
        let soon = runs_out(now + TOKEN_EXPIRY_WARNING - SignedDuration::from_secs(1), &web, now).unwrap();
        assert_eq!(soon.detail, "runs out at 2026-02-07 11:59 UTC");
        assert_eq!(soon.hint, "Make a new one at https://github.com/settings/tokens and set `adapters.github.token`.");
    }

    #[test]
    fn few_are_less_than_a_tenth() {
        let left = |requests| RateLimit { requests, of: 5000, reset: 0 };
        assert!(few_left(left(500)).is_none() && few_left(left(499)).is_some());
    }

    #[test]
    fn what_an_app_lacks() {
        let may = |words: [&str; 3]| {
            let given = REQUIRED_PERMISSIONS.iter().zip(words).filter(|(_, word)| !word.is_empty());
            missing_permissions(&given.map(|(what, word)| ((*what).to_owned(), word.to_owned())).collect())
        };
        assert_eq!(may(["write", "write", "write"]), None);
        assert_eq!(may(["read", "write", ""]).as_deref(), Some("contents (read), pull_requests (nothing)"));
    }
}
