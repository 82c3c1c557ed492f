//! A delivery as it goes over the wire, and what can be wrong with it.

use std::fmt;

use grove_testkit::github::sign_body;
use grove_testkit::{SeededRandom, ServerResponse, TestServer};
use serde_json::json;

use crate::github::WEBHOOK_SECRET;

pub const FORM_CONTENT_TYPE: &str = "application/x-www-form-urlencoded";
const SIGNATURE_HEADER: &str = "x-hub-signature-256";

/// A comment that a user wrote.
#[derive(Clone, Debug)]
pub struct WrittenComment {
    pub thread: u64,
    pub id: u64,
    pub author: (u64, &'static str),
    pub body: String,
    /// How often it was changed.
    pub version: u64,
}

impl WrittenComment {
    pub fn to_payload(&self) -> Vec<u8> {
        let at =
            |version: u64| format!("2026-01-01T{:02}:{:02}:{:02}Z", version / 3600, version / 60 % 60, version % 60);
        let user = json!({ "id": self.author.0, "login": self.author.1 });
        let payload = json!({
            "action": if self.version == 0 { "created" } else { "edited" },
            "issue": { "number": self.thread, "title": "Much to do", "body": "", "user": { "id": 1, "login": "ghost" } },
            "comment": { "id": self.id, "body": self.body, "user": user, "created_at": at(0), "updated_at": at(self.version) },
            "sender": user,
            "repository": { "id": 3, "full_name": "octo/shop", "html_url": "https://github.com/octo/shop" },
        });
        payload.to_string().into_bytes()
    }
}

#[derive(Clone)]
pub struct SentDelivery {
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl fmt::Debug for SentDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headers.iter().try_for_each(|(name, value)| writeln!(f, "{name}: {}", value.escape_ascii()))?;
        write!(f, "{}", self.body.escape_ascii())
    }
}

impl SentDelivery {
    /// As GitHub sends it.
    pub fn new(id: &str, body: Vec<u8>) -> Self {
        let mut delivery = Self { headers: Vec::new(), body };
        delivery.set_header("content-type", "application/json");
        delivery.set_header("x-github-event", "issue_comment");
        delivery.set_header("x-github-delivery", id);
        delivery.sign_body(WEBHOOK_SECRET);
        delivery
    }

    /// As a hook sends it that sends forms.
    pub fn new_form(id: &str, payload: &[u8]) -> Self {
        let encoded: String = payload.iter().map(|byte| format!("%{byte:02X}")).collect();
        let mut delivery = Self::new(id, format!("payload={encoded}").into_bytes());
        delivery.set_header("content-type", FORM_CONTENT_TYPE);
        delivery
    }

    pub fn header_value(&self, name: &str) -> Option<Vec<u8>> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    pub fn remove_header(&mut self, name: &str) {
        self.headers.retain(|(known, _)| *known != name);
    }

    pub fn set_header(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        self.remove_header(name);
        self.headers.push((name, value.as_ref().to_vec()));
    }

    pub fn sign_body(&mut self, secret: &str) {
        let signature = sign_body(secret, &self.body);
        self.set_header(SIGNATURE_HEADER, signature);
    }

    /// Whether the secret made its signature; the digits may be large.
    pub fn is_signed(&self) -> bool {
        let good = sign_body(WEBHOOK_SECRET, &self.body);
        let (kind, digits) = good.as_bytes().split_at("sha256=".len());
        let shown = self.header_value(SIGNATURE_HEADER).unwrap_or_default();
        shown.strip_prefix(kind).is_some_and(|shown| shown.eq_ignore_ascii_case(digits))
    }

    pub fn send_to(&self, server: &TestServer) -> ServerResponse {
        let headers: Vec<(&str, &[u8])> = self.headers.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        server.request_with_bytes("POST", "/webhooks/github", &headers, &self.body).0
    }
}

/// Changes something somewhere.
pub fn change_bytes(dice: &mut SeededRandom, bytes: &mut Vec<u8>) {
    let at = usize::try_from(dice.next_below(bytes.len() as u64 + 1)).expect("few");
    let byte = u8::try_from(dice.next_below(256)).expect("a byte");
    match dice.next_below(5) {
        0 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
        1 if at < bytes.len() => bytes[at] = byte,
        2 if at < bytes.len() => _ = bytes.remove(at),
        3 if dice.one_in(4) => bytes.truncate(at),
        _ => bytes.insert(at, byte),
    }
}

/// What no GitHub sends.
pub fn nonsense_body(dice: &mut SeededRandom, comment: &WrittenComment) -> Vec<u8> {
    let good = String::from_utf8(comment.to_payload()).expect("text");
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let inside = |what: &str| good.replacen('{', &format!("{{{what},"), 1).into_bytes();
    let words = |what: &str| good.replace("@grove ", what).into_bytes();
    match dice.next_below(18) {
        0 => Vec::new(),
        1 => dice.random_bytes(),
        2 => b"\xef\xbb\xbf".iter().copied().chain(good.bytes()).collect(),
        3 => good.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        4 => format!("{good}{good}").into_bytes(),
        5 => format!("[{good}]").into_bytes(),
        6 => inside(&format!("\"more\":{}", deep(100_000))),
        7 => inside(&format!("\"label\":{}", deep(100))),
        8 => inside(&format!("\"installation\":{}", deep(10_000))),
        9 => inside("\"action\":\"created\""),
        10 => inside("\"installation\":{\"id\":1e999}"),
        11 => good.replace("\"number\":", "\"number\":-").into_bytes(),
        12 => good.replace("\"number\":", "\"number\":99999999999999999999").into_bytes(),
        // Not UTF-8: in a field that the server ignores, and in one that it reads.
        13 => {
            let mut bytes = inside("\"more\":\"?\"");
            let at = bytes.iter().position(|byte| *byte == b'?').expect("it is there");
            bytes[at] = 0xff;
            bytes
        }
        14 => {
            let mut bytes = words("@grove ? ");
            let at = bytes.iter().rposition(|byte| *byte == b'?').expect("it is there");
            bytes[at] = 0xff;
            bytes
        }
        15 => words("@grove \\ud800 "),
        16 => words("@grove \\u0000 \\u202e \\u0007 "),
        _ => good.replace("alice", "al\\u0000ice").into_bytes(),
    }
}
