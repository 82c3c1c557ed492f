//! What those see of a fake who look after it: tokens, Apps, hooks and what is left of the hour.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::FakeGithub;
use super::hooks::{Delivery, Hook, Hooks};
use super::http::{Request, Response};
use super::rest::{not_found, problem};
use super::state::{State, Token};

/// What a bot wants to be told.
pub const EVENTS: [&str; 5] =
    ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];

impl FakeGithub {
    /// A classic token with just these scopes: `repo, workflow`.
    pub fn token_with_scopes(&self, login: &str, scopes: &str) -> String {
        let scopes = Some(scopes.to_owned());
        self.new_token("ghp_fake", Token { login: login.to_owned(), until: None, scopes })
    }

    /// A fine-grained token, which runs out in so many hours.
    pub fn fine_grained_token(&self, login: &str, hours: i64) -> String {
        let until = Some(Timestamp::now() + jiff::SignedDuration::from_hours(hours));
        self.new_token("github_pat_fake", Token { login: login.to_owned(), until, scopes: None })
    }

    pub(super) fn new_token(&self, prefix: &str, token: Token) -> String {
        let mut state = self.state();
        state.user(&token.login);
        let name = format!("{prefix}{:032}", state.new_id());
        state.tokens.insert(name.clone(), token);
        name
    }

    /// Nobody can write there any more.
    pub fn archive(&self) {
        self.state().repo(&self.repo).archived = true;
    }

    /// So many requests are left in this hour.
    pub fn requests_left(&self, count: u64) {
        self.state().requests_left = Some(count);
    }

    /// What the App may do from now on: `contents` and `read`, or `none`.
    pub fn app_may(&self, what: &str, word: &str) {
        let mut state = self.state();
        let permissions = &mut state.app.as_mut().expect("an App").permissions;
        match word {
            "none" => permissions.remove(what),
            word => permissions.insert(what.to_owned(), word.to_owned()),
        };
    }

    /// All hooks tell no more than these.
    pub fn hooks_tell(&self, events: &[&str]) {
        self.inner().hooks.change(|hook| hook.events = events.iter().map(|event| (*event).to_owned()).collect());
    }

    /// All hooks are switched off.
    pub fn hooks_off(&self) {
        self.inner().hooks.change(|hook| hook.active = false);
    }

    /// Tells everything to this address, for the App, in all repositories.
    pub fn app_webhook(&self, url: &str, secret: &str) {
        self.webhook(url, secret);
        self.inner().hooks.change(|hook| hook.of_app |= hook.url == url);
    }
}

impl State {
    /// With what every answer says of the token and of the hour.
    pub fn headed(&self, request: &Request, mut response: Response) -> Response {
        if let Some(token) = self.shown(request) {
            if let Some(scopes) = &token.scopes {
                response = response.with("x-oauth-scopes", scopes);
            }
            if let Some(until) = token.until.filter(|_| !token.login.ends_with("[bot]")) {
                let until = until.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
                response = response.with("github-authentication-token-expiration", &until);
            }
        }
        let left = self.requests_left.unwrap_or(4999).to_string();
        let reset = (Timestamp::now().as_second() + 1800).to_string();
        let response = response.with("x-ratelimit-limit", "5000").with("x-ratelimit-remaining", &left);
        response.with("x-ratelimit-reset", &reset)
    }

    pub fn app_json(&self) -> Value {
        let Some(app) = &self.app else { return Value::Null };
        json!({ "id": app.id, "slug": app.slug, "name": app.slug, "permissions": app.permissions, "events": app.events,
            "installations_count": 1 })
    }

    pub fn installation_json(&self) -> Value {
        let Some(app) = &self.app else { return Value::Null };
        json!({ "id": app.installation, "app_id": app.id, "app_slug": app.slug, "permissions": app.permissions,
            "events": app.events, "repository_selection": "all", "suspended_at": null,
            "account": { "login": "octo", "type": "Organization" } })
    }

    /// A repository, with what somebody may do there. An App is no user: it may nothing.
    pub fn repo_as_seen_json(&self, name: &str, login: &str) -> Value {
        let mut json = self.repo_json(name);
        let role = self.repos.get(&name.to_lowercase()).map_or("none", |repo| self.role(repo, login));
        let roles = ["read", "triage", "write", "maintain", "admin"];
        let rank = roles.iter().position(|known| *known == role).filter(|_| !login.ends_with("[bot]"));
        let least = |least: usize| rank.is_some_and(|rank| rank >= least);
        json["permissions"] = json!({ "pull": least(0), "triage": least(1), "push": least(2), "maintain": least(3),
            "admin": least(4) });
        json
    }

    /// Hooks are shown to admins; what a token or an App was not given is refused in other words.
    pub fn may_see_hooks(&self, request: &Request, repo: &str, login: &str) -> Result<(), Response> {
        let role = self.repos.get(&repo.to_lowercase()).map_or("none", |repo| self.role(repo, login));
        if self.shown(request).is_none_or(|token| token.scopes.is_none()) {
            return Err(problem(403, "Resource not accessible by personal access token"));
        }
        if role == "admin" { Ok(()) } else { Err(not_found()) }
    }
}

impl Hooks {
    pub fn of_repository_json(&self) -> Value {
        let sent = self.sent();
        let json = |hook: &Hook| {
            let last = sent.iter().rev().find(|delivery| delivery.url == hook.url);
            json!({ "type": "Repository", "id": hook.id, "name": "web", "active": hook.active, "events": hook.events,
                "config": config(hook), "last_response": last_response(last) })
        };
        self.all().iter().filter(|hook| !hook.of_app).map(json).collect()
    }

    /// An App has one, which may lead nowhere.
    pub fn of_app_json(&self) -> Value {
        let hook = self.all().into_iter().find(|hook| hook.of_app);
        hook.as_ref().map_or_else(|| json!({ "content_type": "form", "insecure_ssl": "0" }), config)
    }

    /// The last first.
    pub fn app_deliveries_json(&self) -> Value {
        let Some(hook) = self.all().into_iter().find(|hook| hook.of_app) else { return json!([]) };
        let sent = self.sent();
        let of_hook = sent.iter().rev().filter(|delivery| delivery.url == hook.url);
        of_hook
            .map(|delivery| {
                let last = last_response(Some(delivery));
                json!({ "id": 1, "guid": delivery.id, "event": delivery.event, "redelivery": false,
                    "status": last["message"], "status_code": last["code"] })
            })
            .collect()
    }
}

fn config(hook: &Hook) -> Value {
    let mut config = json!({ "url": hook.url, "content_type": "json", "insecure_ssl": "0" });
    if !hook.secret.is_empty() {
        config["secret"] = json!("********");
    }
    config
}

fn last_response(last: Option<&Delivery>) -> Value {
    match last.map(|delivery| delivery.status) {
        None => json!({ "code": null, "status": "unused", "message": null }),
        Some(0) => json!({ "code": 502, "status": "timeout", "message": "failed to connect to host" }),
        Some(code @ 200..=299) => json!({ "code": code, "status": "active", "message": "OK" }),
        Some(code) => {
            json!({ "code": code, "status": "misconfigured", "message": format!("Invalid HTTP Response: {code}") })
        }
    }
}
