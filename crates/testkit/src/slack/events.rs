//! Events: to the sockets, or signed to the webhook.

use hmac::{Hmac, Mac};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;

use super::state::PendingEnvelope;
use super::{FakeSlack, FakeSlackInner, SIGNING_SECRET};

/// A payload that was sent to the webhook.
#[derive(Clone, Debug)]
pub struct SentEvent {
    pub payload: Value,
    /// The status that the receiver answered; 0 if it did not answer.
    pub status: u16,
}

/// Returns the headers of a signed request.
pub fn sign_request(secret: &str, timestamp: i64, body: &[u8]) -> [(&'static str, String); 2] {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key");
    let signed = mac.chain_update(format!("v0:{timestamp}:")).chain_update(body).finalize().into_bytes();
    let digest: String = signed.iter().map(|byte| format!("{byte:02x}")).collect();
    [("x-slack-request-timestamp", timestamp.to_string()), ("x-slack-signature", format!("v0={digest}"))]
}

impl FakeSlackInner {
    /// Wraps an event as the Events API does.
    pub fn event_payload(&self, event: &Value) -> Value {
        let id = self.lock_state().new_id();
        json!({
            "token": "verification-token", "team_id": "T1", "api_app_id": "A1", "event": event, "type": "event_callback",
            "event_id": format!("Ev{id:08}"), "event_time": Timestamp::now().as_second(),
            "authorizations": [{ "team_id": "T1", "user_id": "UBOT", "is_bot": true }], "a_new_field": [1, 2],
        })
    }

    /// Sends a payload of the Events API, or of a pressed button.
    pub fn emit(&self, kind: &str, payload: &Value) {
        let hook = self.lock_state().hook.clone();
        match hook {
            Some(url) => {
                let status = post_payload(&url, kind, payload, &[]);
                self.lock_state().sent.push(SentEvent { payload: payload.clone(), status });
            }
            None => {
                let mut state = self.lock_state();
                let number = state.new_id();
                let frame = json!({
                    "type": kind, "envelope_id": format!("envelope-{number}"), "accepts_response_payload": false,
                    "payload": payload,
                });
                state.pending.insert(number, PendingEnvelope { frame, socket: None });
                state.send_pending();
            }
        }
    }
}

/// Sends a payload to a webhook, and returns the status; 0 if there is no answer.
fn post_payload(url: &str, kind: &str, payload: &Value, more: &[(&str, &str)]) -> u16 {
    let (content_type, body) = match kind {
        "interactive" => {
            ("application/x-www-form-urlencoded", format!("payload={}", escape_form(&payload.to_string())))
        }
        _ => ("application/json", payload.to_string()),
    };
    let signed = sign_request(SIGNING_SECRET, Timestamp::now().as_second(), body.as_bytes());
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut request = ureq::Agent::new_with_config(config).post(url).header("content-type", content_type);
    for (name, value) in &signed {
        request = request.header(*name, value);
    }
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    request.send(body.as_bytes()).map_or(0, |response| response.status().as_u16())
}

fn escape_form(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

impl FakeSlack {
    /// Returns what was sent to the webhook so far.
    pub fn sent_events(&self) -> Vec<SentEvent> {
        self.lock_state().sent.clone()
    }

    /// Sends an event to the webhook again, as Slack does after a time-out, and returns the status.
    pub fn resend_event(&self, payload: &Value, attempt: u32) -> u16 {
        let url = self.lock_state().hook.clone().expect("a webhook");
        let attempt = attempt.to_string();
        let headers = [("x-slack-retry-num", attempt.as_str()), ("x-slack-retry-reason", "http_timeout")];
        post_payload(&url, "events_api", payload, &headers)
    }

    /// Sends any payload to the app: an event as it is.
    pub fn send_payload(&self, payload: &Value) {
        self.inner().emit("events_api", payload);
    }
}
