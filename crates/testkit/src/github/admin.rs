//! The administration of a fake: tokens, Apps, hooks and the requests left in the hour.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::FakeGithub;
use super::hooks::{FakeHook, FakeHooks, HookDelivery};
use super::http::{HttpRequest, HttpResponse};
use super::rest::{error_response, not_found};
use super::state::{FakeGithubState, FakeToken};

/// The events that a bot subscribes to.
pub const BOT_EVENTS: [&str; 5] =
    ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];

impl FakeGithub {
    /// Creates a classic token with just these scopes: `repo, workflow`.
    pub fn token_with_scopes(&self, login: &str, scopes: &str) -> String {
        let scopes = Some(scopes.to_owned());
        self.new_token("ghp_fake", FakeToken { login: login.to_owned(), until: None, scopes })
    }

    /// Creates a fine-grained token, which expires in so many hours.
    pub fn fine_grained_token(&self, login: &str, hours: i64) -> String {
        let until = Some(Timestamp::now() + jiff::SignedDuration::from_hours(hours));
        self.new_token("github_pat_fake", FakeToken { login: login.to_owned(), until, scopes: None })
    }

    pub(super) fn new_token(&self, prefix: &str, token: FakeToken) -> String {
        let mut state = self.lock_state();
        state.find_or_add_user(&token.login);
        let name = format!("{prefix}{:032}", state.new_id());
        state.tokens.insert(name.clone(), token);
        name
    }

    /// Archives the repository: no user can write to it any more.
    pub fn archive(&self) {
        self.lock_state().repo_mut(&self.repo).archived = true;
    }

    /// Sets how many requests are left in this hour.
    pub fn requests_left(&self, count: u64) {
        self.lock_state().requests_left = Some(count);
    }

    /// Sets a permission of the App from now on: `contents` and `read`, or `none`.
    pub fn app_may(&self, what: &str, word: &str) {
        let mut state = self.lock_state();
        let permissions = &mut state.app.as_mut().expect("an App").permissions;
        match word {
            "none" => permissions.remove(what),
            word => permissions.insert(what.to_owned(), word.to_owned()),
        };
    }

    /// Limits all hooks to these events.
    pub fn hooks_tell(&self, events: &[&str]) {
        self.inner().hooks.update_hooks(|hook| hook.events = events.iter().map(|event| (*event).to_owned()).collect());
    }

    /// Switches all hooks off.
    pub fn hooks_off(&self) {
        self.inner().hooks.update_hooks(|hook| hook.active = false);
    }

    /// Adds the App's own webhook, which sends the events of all repositories to this address.
    pub fn app_webhook(&self, url: &str, secret: &str) {
        self.add_webhook(url, secret);
        self.inner().hooks.update_hooks(|hook| hook.of_app |= hook.url == url);
    }
}

impl FakeGithubState {
    /// Adds the headers that every response has about the token and about the hour's requests.
    pub fn add_response_headers(&self, request: &HttpRequest, mut response: HttpResponse) -> HttpResponse {
        if let Some(token) = self.presented_token(request) {
            if let Some(scopes) = &token.scopes {
                response = response.with_header("x-oauth-scopes", scopes);
            }
            if let Some(until) = token.until.filter(|_| !token.login.ends_with("[bot]")) {
                let until = until.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
                response = response.with_header("github-authentication-token-expiration", &until);
            }
        }
        let left = self.requests_left.unwrap_or(4999).to_string();
        let reset = (Timestamp::now().as_second() + 1800).to_string();
        let response = response.with_header("x-ratelimit-limit", "5000").with_header("x-ratelimit-remaining", &left);
        response.with_header("x-ratelimit-reset", &reset)
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

    /// Returns a repository with the permissions of a user. An App is no user: it has none.
    pub fn repo_as_seen_json(&self, name: &str, login: &str) -> Value {
        let mut json = self.repo_json(name);
        let role = self.repos.get(&name.to_lowercase()).map_or("none", |repo| self.user_role(repo, login));
        let roles = ["read", "triage", "write", "maintain", "admin"];
        let rank = roles.iter().position(|known| *known == role).filter(|_| !login.ends_with("[bot]"));
        let least = |least: usize| rank.is_some_and(|rank| rank >= least);
        json["permissions"] = json!({ "pull": least(0), "triage": least(1), "push": least(2), "maintain": least(3),
            "admin": least(4) });
        json
    }

    /// Checks that the caller may see hooks: only admins may. A token or an App without the permission is
    /// refused with another message.
    pub fn may_see_hooks(&self, request: &HttpRequest, repo: &str, login: &str) -> Result<(), HttpResponse> {
        let role = self.repos.get(&repo.to_lowercase()).map_or("none", |repo| self.user_role(repo, login));
        if self.presented_token(request).is_none_or(|token| token.scopes.is_none()) {
            return Err(error_response(403, "Resource not accessible by personal access token"));
        }
        if role == "admin" { Ok(()) } else { Err(not_found()) }
    }
}

impl FakeHooks {
    pub fn of_repository_json(&self) -> Value {
        let sent = self.sent_deliveries();
        let json = |hook: &FakeHook| {
            let last = sent.iter().rev().find(|delivery| delivery.url == hook.url);
            json!({ "type": "Repository", "id": hook.id, "name": "web", "active": hook.active, "events": hook.events,
                "config": hook_config_json(hook), "last_response": last_response(last) })
        };
        self.list_hooks().iter().filter(|hook| !hook.of_app).map(json).collect()
    }

    /// Returns the App's one hook, which may have no address.
    pub fn of_app_json(&self) -> Value {
        let hook = self.list_hooks().into_iter().find(|hook| hook.of_app);
        hook.as_ref().map_or_else(|| json!({ "content_type": "form", "insecure_ssl": "0" }), hook_config_json)
    }

    /// Returns the deliveries of the App's hook, the last first.
    pub fn app_deliveries_json(&self) -> Value {
        let Some(hook) = self.list_hooks().into_iter().find(|hook| hook.of_app) else { return json!([]) };
        let sent = self.sent_deliveries();
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

fn hook_config_json(hook: &FakeHook) -> Value {
    let mut config = json!({ "url": hook.url, "content_type": "json", "insecure_ssl": "0" });
    if !hook.secret.is_empty() {
        config["secret"] = json!("********");
    }
    config
}

fn last_response(last: Option<&HookDelivery>) -> Value {
    match last.map(|delivery| delivery.status) {
        None => json!({ "code": null, "status": "unused", "message": null }),
        Some(0) => json!({ "code": 502, "status": "timeout", "message": "failed to connect to host" }),
        Some(code @ 200..=299) => json!({ "code": code, "status": "active", "message": "OK" }),
        Some(code) => {
            json!({ "code": code, "status": "misconfigured", "message": format!("Invalid HTTP Response: {code}") })
        }
    }
}
