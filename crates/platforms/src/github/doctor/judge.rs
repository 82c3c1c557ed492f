//! What was found out, as somebody reads it. Nothing is asked here.

use std::collections::BTreeMap;

use grove_environments::maintenance::doctor::{Check, Verdict, check};
use grove_environments::settings::GithubSettings;
use grove_git::GitError;
use jiff::{SignedDuration, Timestamp};

use crate::github::adapter::BadSettings;
use crate::github::api::{ApiError, Installed, Left, Rights, Standing};
use crate::github::doctor::{Found, Subject};
use crate::github::inbound::mention::BotName;
use crate::github::repo::RepoName;
use crate::github::web_address::Web;

/// A shorter secret can be guessed.
const SHORTEST_SECRET: usize = 16;
/// A token that runs out this soon is worth a word.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What an App must be able to write.
const PERMISSIONS: [&str; 3] = ["contents", "issues", "pull_requests"];

const NAME: &str = "github";
const TOKEN: &str = "github token";
const SECRET: &str = "github webhook secret";

/// What needs no answer of GitHub's.
pub(crate) fn settings(settings: &GithubSettings) -> Vec<Check> {
    let mut checks = Vec::new();
    if BotName::parse(&settings.bot_name).is_none() {
        let bad = BadSettings::BotName(settings.bot_name.clone());
        checks.push(check(NAME, Verdict::Bad, bad.to_string(), "Set it to a name such as `grove`."));
    }
    for name in settings.repos.iter().filter(|name| RepoName::parse(name).is_none()) {
        let bad = BadSettings::Repository(name.clone());
        checks.push(check(NAME, Verdict::Bad, bad.to_string(), "Correct it in GROVE_HOME/config.toml."));
    }
    if settings.poll.is_none() {
        checks.push(secret(&settings.webhook_secrets));
    }
    checks
}

fn secret(secrets: &[String]) -> Check {
    let mut secrets = secrets.iter().filter(|secret| !secret.is_empty()).peekable();
    if secrets.peek().is_none() {
        let hint =
            "Set `adapters.github.webhook_secret`, the same as in the webhook; without it only `/push` and `/pr` work.";
        return check(SECRET, Verdict::Warning, "not set, so nothing that GitHub tells is heard", hint);
    }
    if secrets.any(|secret| secret.chars().count() < SHORTEST_SECRET) {
        let detail = format!("shorter than {SHORTEST_SECRET} characters, so somebody may guess it");
        let hint = "Set a longer one, here and in the webhook; `openssl rand -hex 32` makes one. Both hold in a list.";
        return check(SECRET, Verdict::Warning, detail, hint);
    }
    check(SECRET, Verdict::Good, "set", "")
}

pub(crate) fn no_credentials() -> Check {
    let hint = "Set `adapters.github.token`, or `app_id` and `private_key_file`; what GitHub tells is kept until then.";
    check(NAME, Verdict::Bad, "neither a token nor an App is configured", hint)
}

pub(crate) fn unusable(error: &BadSettings) -> Check {
    check(NAME, Verdict::Bad, error.to_string(), "Correct `[adapters.github]` in GROVE_HOME/config.toml.")
}

/// What GitHub did not say.
pub(crate) fn not_known(name: &str, why: &str) -> Check {
    let hint = "Try again later, or check that this machine reaches `adapters.github.api_url`.";
    check(name, Verdict::Warning, format!("not known: {why}"), hint)
}

/// Who we are, and what our credentials are good for.
pub(crate) fn standing(asked: &Result<Standing, ApiError>, is_app: bool, web: &Web, now: Timestamp) -> Vec<Check> {
    let standing = match asked {
        Ok(standing) => standing,
        Err(error) => return vec![not_standing(error, is_app, web)],
    };
    let name = &standing.name;
    let mut checks = match &standing.rights {
        Rights::Scopes(scopes) => {
            let mut checks = vec![check(NAME, Verdict::Good, format!("as {name}, with a classic token"), "")];
            if !scopes.iter().any(|scope| scope == "repo" || scope == "public_repo") {
                let has = if scopes.is_empty() { "none".to_owned() } else { scopes.join(", ") };
                let detail = format!("has not the scope `repo`; it has {has}");
                let hint = format!("Give it `repo` at {}.", web.page("settings/tokens"));
                checks.push(check(TOKEN, Verdict::Bad, detail, hint));
            }
            checks
        }
        Rights::Untold => vec![check(NAME, Verdict::Good, format!("as {name}, with a token"), "")],
        Rights::App { permissions, installed, .. } => app(name, permissions, installed, web),
    };
    checks.extend(standing.until.as_deref().and_then(moment).and_then(|until| runs_out(until, web, now)));
    checks.extend(standing.left.and_then(few_left));
    checks
}

fn not_standing(error: &ApiError, is_app: bool, web: &Web) -> Check {
    match error {
        ApiError::BadCredentials(_) if is_app => {
            let hint = "Check that `app_id` is the App's, that `private_key_file` is one of its keys, and this machine's clock.";
            check(NAME, Verdict::Bad, "GitHub does not take the App's key", hint)
        }
        ApiError::BadCredentials(_) => {
            let hint = format!("Make a new one at {} and set `adapters.github.token`.", web.page("settings/tokens"));
            check(NAME, Verdict::Bad, "GitHub does not take the token: it ran out, was withdrawn or is wrong", hint)
        }
        other => not_known(NAME, &other.to_string()),
    }
}

fn app(name: &str, permissions: &BTreeMap<String, String>, installed: &[Installed], web: &Web) -> Vec<Check> {
    let at: Vec<&str> =
        installed.iter().filter_map(|at| at.account.as_ref()).map(|account| account.login.as_str()).collect();
    let mut checks = if installed.is_empty() {
        let hint = format!("Install it at {}.", web.page(&format!("apps/{name}/installations/new")));
        vec![check(NAME, Verdict::Bad, format!("as the App {name}, which is installed nowhere"), hint)]
    } else {
        vec![check(NAME, Verdict::Good, format!("as the App {name}, installed at {}", at.join(", ")), "")]
    };
    if let Some(missing) = missing(permissions) {
        let hint = "Change its permissions on GitHub; whoever installed it is asked to agree.";
        checks.push(check("github app", Verdict::Bad, format!("may not write {missing}"), hint));
    }
    checks
}

/// What an App may not write, with what it may do instead.
fn missing(permissions: &BTreeMap<String, String>) -> Option<String> {
    let lacks = |what: &&str| permissions.get(*what).is_none_or(|word| word != "write" && word != "admin");
    let said = |what: &str| {
        let may = permissions.get(what).map_or("nothing", String::as_str);
        format!("{what} ({may})")
    };
    let missing: Vec<String> = PERMISSIONS.into_iter().filter(lacks).map(said).collect();
    if missing.is_empty() { None } else { Some(missing.join(", ")) }
}

/// `2026-01-31 12:00:00 UTC`, or with another zone; what cannot be read is not known.
fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim().replace(" UTC", " +0000");
    Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", text).ok()
}

fn shown(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn runs_out(until: Timestamp, web: &Web, now: Timestamp) -> Option<Check> {
    let hint = format!("Make a new one at {} and set `adapters.github.token`.", web.page("settings/tokens"));
    let soon = until.duration_since(now) < SOON;
    soon.then(|| check(TOKEN, Verdict::Warning, format!("runs out at {}", shown(until)), hint))
}

fn few_left(left: Left) -> Option<Check> {
    let few = left.requests.saturating_mul(10) < left.of;
    let until = Timestamp::from_second(left.reset).map(shown).unwrap_or_else(|_| "the hour is over".to_owned());
    let detail = format!("{} of {} requests are left until {until}", left.requests, left.of);
    let hint = "Something else uses the same account; give the bot one of its own, or an App.";
    few.then(|| check("github requests", Verdict::Warning, detail, hint))
}

/// Whether a repository is there, and whether we may write to it.
pub(crate) fn repository(subject: &Subject, found: &Found, rights: Option<&Rights>) -> Vec<Check> {
    let name = format!("github {}", subject.repo);
    // Where nobody is heard, only `/push` and `/pr` are the poorer for it.
    let bad = if subject.heard || subject.listed { Verdict::Bad } else { Verdict::Warning };
    let error = match (&found.installed, &found.seen) {
        (Some(Err(error)), _) | (_, Err(error)) => Some(error),
        (_, Ok(_)) => None,
    };
    if let Some(error) = error {
        return vec![out_of_sight(&name, bad, error, found.installed.is_some())];
    }
    let Ok(seen) = &found.seen else { return Vec::new() };
    let mut checks = Vec::new();
    if RepoName::parse(&seen.full_name).is_some_and(|now| !now.is(&subject.repo)) {
        let hint = if subject.listed {
            format!("Write `{}` into `adapters.github.repos`.", seen.full_name)
        } else {
            "Change the remote's address in the codebase: `git remote set-url`.".to_owned()
        };
        checks.push(check(&name, bad, format!("is called {} now", seen.full_name), hint));
    }
    if seen.archived {
        let hint = "Unarchive it on GitHub, or work for it no longer.";
        checks.push(check(&name, Verdict::Warning, "archived, so nothing can be written there", hint));
    }
    match (&found.installed, seen.permissions) {
        (Some(Ok(installed)), _) => checks.extend(given(&name, bad, installed)),
        (_, Some(may)) if !may.push => {
            let hint = "Let the account of the token write there.";
            checks.push(check(&name, bad, "may be read, not written", hint));
        }
        (_, None) => checks.push(not_known(&name, "GitHub does not say what we may do there")),
        (_, Some(_)) => {}
    }
    if checks.is_empty() {
        let detail = match rights {
            Some(Rights::Untold) | None => "the account may write there; whether the token may, GitHub does not say",
            Some(Rights::Scopes(_) | Rights::App { .. }) => "may be written",
        };
        checks.push(check(&name, Verdict::Good, detail, ""));
    }
    checks
}

fn out_of_sight(name: &str, bad: Verdict, error: &ApiError, is_app: bool) -> Check {
    match error {
        ApiError::NotFound(_) if is_app => {
            check(name, bad, "the App is not installed there", "Install it for this repository, or correct the name.")
        }
        ApiError::NotFound(_) => {
            let hint = "Correct the name, or give the token access to it.";
            check(name, bad, "GitHub does not know it, or does not show it to us", hint)
        }
        ApiError::Forbidden(_) | ApiError::Refused { .. } | ApiError::BadCredentials(_) => {
            check(name, bad, error.to_string(), "Give the token access to it.")
        }
        other => not_known(name, &other.to_string()),
    }
}

/// What an installation of the App was given.
fn given(name: &str, bad: Verdict, installed: &Installed) -> Option<Check> {
    if installed.suspended_at.is_some() {
        let hint = "Whoever installed the App can take that back in its settings.";
        return Some(check(name, bad, "the App is suspended there", hint));
    }
    let missing = missing(&installed.permissions)?;
    let hint = "Whoever installed the App has to agree to its permissions.";
    Some(check(name, bad, format!("the App may not write {missing} there"), hint))
}

/// Whether git is let in with the same credentials; `None` if it did not answer in its time.
pub(crate) fn git(repo: &RepoName, answered: Option<Result<(), GitError>>) -> Check {
    let name = "github git";
    match answered {
        Some(Ok(())) => check(name, Verdict::Good, format!("{repo} can be fetched"), ""),
        Some(Err(GitError::Failed { line, .. })) if is_refusal(&line) => {
            let hint = "Check that the token, or the App, may read the repository's contents.";
            check(name, Verdict::Bad, format!("{repo} cannot be fetched: {line}"), hint)
        }
        Some(Err(error)) => not_known(name, &error.line()),
        None => not_known(name, "git did not answer in time"),
    }
}

/// Whether git was turned away, by its own line; otherwise it did not come so far.
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
        assert_eq!(moment("2026-01-31 12:00:00 UTC"), Some(noon));
        assert_eq!(moment("2026-01-31 13:00:00 +0100"), Some(noon));
        for nonsense in ["", "soon", "2026-01-31", "2026-13-31 12:00:00 UTC"] {
            assert_eq!(moment(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_week_before_it_runs_out_is_soon() {
        let web = Web::of_api("https://api.github.com").unwrap();
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        assert!(runs_out(now + SOON, &web, now).is_none());
        let soon = runs_out(now + SOON - SignedDuration::from_secs(1), &web, now).unwrap();
        assert_eq!(soon.detail, "runs out at 2026-02-07 11:59 UTC");
        assert_eq!(soon.hint, "Make a new one at https://github.com/settings/tokens and set `adapters.github.token`.");
    }

    #[test]
    fn few_are_less_than_a_tenth() {
        let left = |requests| Left { requests, of: 5000, reset: 0 };
        assert!(few_left(left(500)).is_none() && few_left(left(499)).is_some());
    }

    #[test]
    fn what_an_app_lacks() {
        let may = |words: [&str; 3]| {
            let given = PERMISSIONS.iter().zip(words).filter(|(_, word)| !word.is_empty());
            missing(&given.map(|(what, word)| ((*what).to_owned(), word.to_owned())).collect())
        };
        assert_eq!(may(["write", "write", "write"]), None);
        assert_eq!(may(["read", "write", ""]).as_deref(), Some("contents (read), pull_requests (nothing)"));
    }
}
