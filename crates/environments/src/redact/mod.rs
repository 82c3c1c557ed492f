//! Removes secrets from everything that people, logs and records get. No other module does this.
//!
//! [`shapes`] recognises secrets by their format. Configured secrets are known verbatim, and in the encodings
//! of [`encoded`]. [`stream`] does the same for a text that arrives in pieces.

mod encoded;
mod shapes;
mod stream;

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

pub use stream::RedactedStream;

/// The text that replaces a secret.
const SECRET_MASK: &str = "***";

/// The end of a text that was cut.
const TRUNCATION_MARK: &str = "…";

/// A shorter prefix of a secret reveals nothing.
const MIN_SECRET_PREFIX: usize = 4;

/// Removes secrets from texts. Cheap to clone; clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    known: Arc<RwLock<Arc<KnownSecrets>>>,
}

#[derive(Debug, Default)]
struct KnownSecrets {
    secrets: Vec<KnownSecret>,
    /// Values that may be ordinary words.
    values: Vec<KnownSecret>,
}

impl KnownSecrets {
    fn all(&self) -> impl Iterator<Item = &KnownSecret> + Clone {
        self.secrets.iter().chain(&self.values)
    }
}

/// A secret that is known verbatim.
#[derive(Debug)]
struct KnownSecret {
    plain: String,
    /// Its form in a JSON text, if that differs.
    in_json: Option<String>,
    base64_pieces: Vec<String>,
}

impl KnownSecret {
    fn new(plain: String) -> Self {
        let in_json = Value::from(plain.as_str()).to_string();
        let in_json = Some(in_json[1..in_json.len() - 1].to_owned()).filter(|escaped| *escaped != plain);
        Self { in_json, base64_pieces: encoded::base64_pieces(&plain), plain }
    }
}

impl Redactor {
    /// Also removes these secrets, whatever their format.
    pub fn new(secrets: Vec<String>) -> Self {
        let known = KnownSecrets { secrets: known_secrets(secrets), values: Vec::new() };
        Self { known: Arc::new(RwLock::new(Arc::new(known))) }
    }

    /// Also removes these values from outgoing text. They may be ordinary words, so they stay in incoming
    /// text.
    pub fn with_values(self, values: Vec<String>) -> Self {
        self.learn(Vec::new(), values);
        self
    }

    /// Also removes these secrets and values from now on, in all clones. What was known stays known: it may
    /// still be in use.
    pub fn learn(&self, secrets: Vec<String>, values: Vec<String>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let add = |old: &[KnownSecret], new: Vec<String>| {
            let mut all: Vec<String> = old.iter().map(|secret| secret.plain.clone()).collect();
            all.extend(new);
            all.sort_unstable();
            all.dedup();
            known_secrets(all)
        };
        *known = Arc::new(KnownSecrets { secrets: add(&known.secrets, secrets), values: add(&known.values, values) });
    }

    fn known(&self) -> Arc<KnownSecrets> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Redacts text for people, logs and records.
    pub fn redact_text(&self, text: &str) -> String {
        let known = self.known();
        clean_of(text, || known.all())
    }

    /// Redacts text that people send to us, before it is stored.
    pub fn clean_incoming(&self, text: &str) -> String {
        let known = self.known();
        clean_of(text, || known.secrets.iter())
    }

    /// Redacts a text that was cut: it may end in the middle of a secret.
    pub fn clean_cut(&self, text: &str) -> String {
        let clean = self.redact_text(text);
        let Some(shown) = clean.strip_suffix(TRUNCATION_MARK) else { return clean };
        let known = self.known();
        let starts = known.all().filter_map(|secret| {
            let lengths = (MIN_SECRET_PREFIX..secret.plain.len()).rev().filter(|at| secret.plain.is_char_boundary(*at));
            lengths.map(|length| &secret.plain[..length]).find(|start| shown.ends_with(start)).map(str::len)
        });
        match starts.max() {
            Some(length) => format!("{}{SECRET_MASK}{TRUNCATION_MARK}", &shown[..shown.len() - length]),
            None => clean,
        }
    }

    /// Redacts every string of an incoming JSON value. Strings that people write (`is_prose`, by their key)
    /// are redacted completely; from the others, which programs read, only text in the format of a secret is
    /// removed.
    pub fn clean_json(&self, value: &mut Value, is_prose: impl Fn(&str) -> bool + Copy) {
        self.clean_json_of("", value, is_prose);
    }

    fn clean_json_of(&self, key: &str, value: &mut Value, is_prose: impl Fn(&str) -> bool + Copy) {
        match value {
            Value::String(text) if is_prose(key) => *text = self.clean_incoming(text),
            Value::String(text) => *text = Redactor::default().redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_json_of(key, item, is_prose)),
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(key, field)| self.clean_json_of(key, field, is_prose));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn clean_of<'a, I: Iterator<Item = &'a KnownSecret>>(text: &str, known: impl Fn() -> I) -> String {
    let text = grove_git::redact::redact_credentials(text);
    let mut secrets = shapes::find_tokens(&text);
    secrets.extend(shapes::find_aws_keys(&text));
    secrets.extend(shapes::find_private_keys(&text));
    for secret in known() {
        let forms = [Some(&secret.plain), secret.in_json.as_ref()].into_iter().flatten();
        secrets.extend(forms.flat_map(|form| find_all(&text, form)));
    }
    secrets.extend(encoded::find_escaped(&text, known().map(|secret| secret.plain.as_str())));
    let pieces = known().flat_map(|secret| &secret.base64_pieces);
    secrets.extend(encoded::find_base64(&text, pieces.map(String::as_str)));
    mask_ranges(text, secrets)
}

fn known_secrets(secrets: Vec<String>) -> Vec<KnownSecret> {
    secrets.into_iter().filter(|secret| !secret.is_empty()).map(KnownSecret::new).collect()
}

fn find_all(text: &str, secret: &str) -> Vec<Range<usize>> {
    text.match_indices(secret).map(|(at, found)| at..at + found.len()).collect()
}

/// Returns the text with the mask in these ranges.
fn mask_ranges(text: String, mut secrets: Vec<Range<usize>>) -> String {
    if secrets.is_empty() {
        return text;
    }
    secrets.sort_by_key(|secret| secret.start);
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for secret in secrets {
        if secret.start >= end {
            out.push_str(&text[end..secret.start]);
            out.push_str(SECRET_MASK);
        }
        end = end.max(secret.end);
    }
    out.push_str(&text[end..]);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Redactor;

    #[test]
    fn tokens_go_and_words_stay() {
        let redactor = Redactor::new(vec!["my-own-server-token".to_owned()]);
        for (text, clean) in [
            ("push with ghp_0123456789abcdefghij, now", "push with ***, now"),
            ("sk-ant-api03-AAAAAAAAAAAAAAAAAAAA", "***"),
            ("the task-force asks: sk-iing?", "the task-force asks: sk-iing?"),
            ("my-own-server-token", "***"),
            ("https://me:pw@host/x", "https://***@host/x"),
            ("xoxb-1 is short", "xoxb-1 is short"),
            ("\u{1b}[31mghp_0123456789abcdefghij\u{1b}[0m", "\u{1b}[31m***\u{1b}[0m"),
            (r"\nghp_0123456789abcdefghij", r"\n***"),
            ("disk-0123456789abcdef0123", "disk-0123456789abcdef0123"),
            ("//registry/:_authToken=npm_0123456789abcdefghijABCDEFGHIJ012345", "//registry/:_authToken=***"),
            ("npm_config_registry_of_the_company=x", "npm_config_registry_of_the_company=x"),
            ("ids AKIAIOSFODNN7EXAMPLE and ASIAIOSFODNN7EXAMPLE", "ids *** and ***"),
            ("the ASIAN market, AKIAtastic", "the ASIAN market, AKIAtastic"),
            (
                "cookie grove=grove_session_0123456789abcdefghijABCDEFGHIJ_-012345678ab; Path=/",
                "cookie grove=***; Path=/",
            ),
            (
                "http://127.0.0.1/login/grove_link_0123456789abcdefghijABCDEFGHIJ_-012345678ab",
                "http://127.0.0.1/login/***",
            ),
        ] {
            assert_eq!(redactor.redact_text(text), clean);
            assert_eq!(redactor.redact_text(clean), clean, "once is enough");
        }
    }

    #[test]
    fn keys_of_aws_are_known_by_what_stands_before_them() {
        const TEST_PRIVATE_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let redactor = Redactor::default();
        for before in [
            "aws_secret_access_key = ",
            "export AWS_SECRET_ACCESS_KEY='",
            "\"SecretAccessKey\": \"",
            "<SecretAccessKey>",
            "AWS Secret Access Key [None]: ",
            "AKIAIOSFODNN7EXAMPLE,",
            "AKIAIOSFODNN7EXAMPLE:",
        ] {
            let clean = redactor.redact_text(&format!("{before}{TEST_PRIVATE_KEY}\nmore"));
            assert!(!clean.contains("wJalr") && clean.contains("***") && clean.ends_with("\nmore"), "{clean}");
        }
        assert_eq!(redactor.redact_text("secret_access_key = none"), "secret_access_key = none");
        let sum = "sha1 of it: 0123456789012345678901234567890123456789";
        assert_eq!(redactor.redact_text(sum), sum);
    }

    #[test]
    fn a_private_key_goes_to_its_end() {
        let redactor = Redactor::default();
        for kind in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let key = format!("-----BEGIN {kind}-----\nMIIEow\nAAAA\n-----END {kind}-----");
            assert_eq!(redactor.redact_text(&format!("a\n{key}\nb {key}")), "a\n***\nb ***");
            let escaped = key.replace('\n', "\\n");
            assert_eq!(redactor.redact_text(&format!("{{\"key\":\"{escaped}\"}}")), "{\"key\":\"***\"}");
        }
        assert_eq!(redactor.redact_text("a -----BEGIN PRIVATE KEY-----\nMIIEow\nAAAA"), "a ***");
        let public = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----";
        assert_eq!(redactor.redact_text(public), public);
    }

    #[test]
    fn secrets_are_known_in_other_clothes() {
        use base64::Engine;
        use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
        for secret in ["s3cr3t/with+signs==", "eight8ch", "pass \"word\" of 20 \u{e4}"] {
            let redactor = Redactor::new(vec![secret.to_owned()]);
            for before in ["", "a", "ab", "abc", "x-access-token:"] {
                for after in ["", "\n", "more"] {
                    let plain = format!("{before}{secret}{after}");
                    for encoded in
                        [STANDARD.encode(&plain), STANDARD_NO_PAD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)]
                    {
                        let clean = redactor.redact_text(&format!("Authorization: Basic {encoded}, sent"));
                        assert_eq!(clean, "Authorization: Basic ***, sent", "{plain} {encoded}");
                        let (one, two) = encoded.split_at(encoded.len() / 2);
                        let wrapped = redactor.redact_text(&format!("{one}\n{two}.")).replace('\n', "");
                        let is_left = super::encoded::base64_pieces(secret).iter().any(|piece| wrapped.contains(piece));
                        assert!(!is_left && wrapped.contains("***"), "{one} {two} {wrapped}");
                    }
                }
            }
            let escaped: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
            assert_eq!(redactor.redact_text(&format!("?token={escaped}&x=1")), "?token=***&x=1");
            let some: String = secret
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() {
                        c.to_string()
                    } else {
                        let mut bytes = [0; 4];
                        c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
                    }
                })
                .collect();
            assert_eq!(redactor.redact_text(&format!("?token={some}&x=1")), "?token=***&x=1");
            let json = serde_json::to_string(&format!("a {secret} b")).unwrap();
            assert_eq!(redactor.redact_text(&json), "\"a *** b\"");
        }
    }

    #[test]
    fn values_stay_in_what_comes_in() {
        let redactor =
            Redactor::new(vec!["my-own-server-token".to_owned()]).with_values(vec!["/home/me/tmp".to_owned()]);
        let text = "my-own-server-token in /home/me/tmp";
        assert_eq!(redactor.redact_text(text), "*** in ***");
        assert_eq!(redactor.clean_incoming(text), "*** in /home/me/tmp");
    }

    #[test]
    fn half_a_secret_before_a_cut_goes() {
        let redactor = Redactor::new(vec!["my-own-server-token".to_owned()]);
        for (text, clean) in [
            ("curl -H my-own-serv…", "curl -H ***…"),
            ("curl -H my-own-serv", "curl -H my-own-serv"),
            ("curl -H my-…", "curl -H my-…"),
            ("my-own-server-token…", "***…"),
        ] {
            assert_eq!(redactor.clean_cut(text), clean);
        }
    }

    #[test]
    fn json_stays_json_and_names_stay_names() {
        let redactor = Redactor::new(vec!["github.com".to_owned(), "pa\"ss\\word".to_owned()]);
        let mut value = json!({ "html_url": "https://github.com/octo/shop", "id": 7,
            "comment": { "body": "at github.com: pa\"ss\\word", "labels": ["ghp_0123456789abcdefghij"] } });
        redactor.clean_json(&mut value, |key| key == "body");
        let expected = json!({ "html_url": "https://github.com/octo/shop", "id": 7,
            "comment": { "body": "at ***: ***", "labels": ["***"] } });
        assert_eq!(value, expected);
    }
}
