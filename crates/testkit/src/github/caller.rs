//! Who asks: a person by a token, or an App.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::http::{Request, Response, base64};
use super::rest::{Answer, not_found, problem};
use super::state::{State, Token};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    User(String),
    App,
}

impl State {
    /// The login of a token that is good.
    pub fn token(&self, token: &str) -> Option<String> {
        let Token { login, until, .. } = self.tokens.get(token)?;
        until.is_none_or(|until| until > Timestamp::now()).then(|| login.clone())
    }

    /// The token that is shown, if it is a good one.
    pub fn shown(&self, request: &Request) -> Option<&Token> {
        let token = self.tokens.get(request.header("authorization")?.split_once(' ')?.1)?;
        token.until.is_none_or(|until| until > Timestamp::now()).then_some(token)
    }

    pub fn caller(&self, request: &Request) -> Result<Caller, Response> {
        let shown = request.header("authorization").and_then(|value| value.split_once(' ')).map(|(_, token)| token);
        let refused = || problem(401, "Bad credentials");
        let token = shown.ok_or_else(|| problem(401, "Requires authentication"))?;
        if token.matches('.').count() == 2 {
            return self.is_jwt(token).then_some(Caller::App).ok_or_else(refused);
        }
        self.token(token).map(Caller::User).ok_or_else(refused)
    }

    /// The shape and the claims of what an App shows; the signature is not looked into.
    pub fn is_jwt(&self, token: &str) -> bool {
        let parts: Vec<Option<Vec<u8>>> = token.split('.').map(base64).collect();
        let [Some(head), Some(claims), Some(signature)] = parts.as_slice() else { return false };
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let (head, claims, now) = (json(head), json(claims), Timestamp::now().as_second());
        let issuer = claims["iss"].as_u64().or_else(|| claims["iss"].as_str()?.parse().ok());
        let (from, until) = (claims["iat"].as_i64().unwrap_or(i64::MAX), claims["exp"].as_i64().unwrap_or_default());
        let known = self.app.as_ref().is_some_and(|app| issuer == Some(app.id));
        known && head["alg"] == "RS256" && signature.len() == 256 && from <= now && now < until && until <= now + 600
    }

    pub fn new_token(&mut self, installation: &str) -> Answer {
        let app = self.app.clone().filter(|app| app.installation.to_string() == installation).ok_or_else(not_found)?;
        let login = format!("{}[bot]", app.slug);
        self.user(&login);
        let until = Timestamp::now() + app.tokens_last;
        let token = format!("ghs_fake{:032}", self.new_id());
        self.tokens.insert(token.clone(), Token { login, until: Some(until), scopes: None });
        let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Ok(Response::json(
            201,
            &json!({ "token": token, "expires_at": until, "permissions": app.permissions, "repository_selection": "all" }),
        ))
    }
}
