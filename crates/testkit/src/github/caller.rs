//! Identifies the caller of a request: a person by a token, or an App.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::http::{HttpRequest, HttpResponse, decode_base64};
use super::rest::{RouteResult, error_response, not_found};
use super::state::{FakeGithubState, FakeToken};

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiCaller {
    User(String),
    App,
}

impl FakeGithubState {
    /// Returns the login of a valid token.
    pub fn token_login(&self, token: &str) -> Option<String> {
        let FakeToken { login, until, .. } = self.tokens.get(token)?;
        until.is_none_or(|until| until > Timestamp::now()).then(|| login.clone())
    }

    /// Returns the token of a request, if it is valid.
    pub fn presented_token(&self, request: &HttpRequest) -> Option<&FakeToken> {
        let token = self.tokens.get(request.header_value("authorization")?.split_once(' ')?.1)?;
        token.until.is_none_or(|until| until > Timestamp::now()).then_some(token)
    }

    pub fn identify_caller(&self, request: &HttpRequest) -> Result<ApiCaller, HttpResponse> {
        let shown =
            request.header_value("authorization").and_then(|value| value.split_once(' ')).map(|(_, token)| token);
        let refused = || error_response(401, "Bad credentials");
        let token = shown.ok_or_else(|| error_response(401, "Requires authentication"))?;
        if token.matches('.').count() == 2 {
            return self.is_jwt(token).then_some(ApiCaller::App).ok_or_else(refused);
        }
        self.token_login(token).map(ApiCaller::User).ok_or_else(refused)
    }

    /// Checks the shape and the claims of an App's JWT; the signature is not verified.
    pub fn is_jwt(&self, token: &str) -> bool {
        let parts: Vec<Option<Vec<u8>>> = token.split('.').map(decode_base64).collect();
        let [Some(head), Some(claims), Some(signature)] = parts.as_slice() else { return false };
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let (head, claims, now) = (json(head), json(claims), Timestamp::now().as_second());
        let issuer = claims["iss"].as_u64().or_else(|| claims["iss"].as_str()?.parse().ok());
        let (from, until) = (claims["iat"].as_i64().unwrap_or(i64::MAX), claims["exp"].as_i64().unwrap_or_default());
        let known = self.app.as_ref().is_some_and(|app| issuer == Some(app.id));
        known && head["alg"] == "RS256" && signature.len() == 256 && from <= now && now < until && until <= now + 600
    }

    pub fn new_token(&mut self, installation: &str) -> RouteResult {
        let app = self.app.clone().filter(|app| app.installation.to_string() == installation).ok_or_else(not_found)?;
        let login = format!("{}[bot]", app.slug);
        self.find_or_add_user(&login);
        let until = Timestamp::now() + app.tokens_last;
        let token = format!("ghs_fake{:032}", self.new_id());
        self.tokens.insert(token.clone(), FakeToken { login, until: Some(until), scopes: None });
        let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Ok(HttpResponse::from_json(
            201,
            &json!({ "token": token, "expires_at": until, "permissions": app.permissions, "repository_selection": "all" }),
        ))
    }
}
