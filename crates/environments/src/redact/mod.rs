//! Secrets never leave in a message, and none is kept: the one place that takes them out of what people, logs
//! and records get.
//!
//! [`shapes`] knows secrets by what they look like. Those that somebody configured are known as they are and
//! in the encodings of [`encoded`]. [`stream`] does the same for a text that comes in pieces.

mod encoded;
mod shapes;
mod stream;

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

pub use stream::CleanStream;

/// What stands in a secret's place.
const MASK: &str = "***";

/// What a text ends with that was cut.
const CUT: &str = "…";

/// Fewer characters of a secret's beginning tell nothing.
const SHORTEST_START: usize = 4;

/// Takes secrets out of texts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Arc<Vec<KnownSecret>>,
    values: Arc<Vec<KnownSecret>>,
}

/// A secret that is known word for word.
#[derive(Debug)]
struct KnownSecret {
    plain: String,
    /// As it stands in a JSON text, where that is something else.
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
    /// Also takes these out, whatever they look like.
    pub fn new(secrets: Vec<String>) -> Self {
        Self { secrets: Arc::new(known(secrets)), values: Arc::default() }
    }

    /// Also takes these out of what leaves. They may be ordinary words, so they stay in what comes in.
    pub fn with_values(self, values: Vec<String>) -> Self {
        Self { values: Arc::new(known(values)), ..self }
    }

    /// Cleans what people, logs and records get.
    pub fn clean(&self, text: &str) -> String {
        self.clean_of(text, || self.secrets.iter().chain(self.values.iter()))
    }

    /// Cleans what people say to us, before it is kept.
    pub fn clean_incoming(&self, text: &str) -> String {
        self.clean_of(text, || self.secrets.iter())
    }

    /// Cleans a text that somebody cut: it may end in the middle of a secret.
    pub fn clean_cut(&self, text: &str) -> String {
        let clean = self.clean(text);
        let Some(shown) = clean.strip_suffix(CUT) else { return clean };
        let known = self.secrets.iter().chain(self.values.iter());
        let starts = known.filter_map(|secret| {
            let lengths = (SHORTEST_START..secret.plain.len()).rev().filter(|at| secret.plain.is_char_boundary(*at));
            lengths.map(|length| &secret.plain[..length]).find(|start| shown.ends_with(start)).map(str::len)
        });
        match starts.max() {
            Some(length) => format!("{}{MASK}{CUT}", &shown[..shown.len() - length]),
            None => clean,
        }
    }

    fn clean_of<'a, I: Iterator<Item = &'a KnownSecret>>(&self, text: &str, known: impl Fn() -> I) -> String {
        let text = grove_git::redact::credentials(text);
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
        mask(text, secrets)
    }

    /// Cleans every string of a JSON value that comes in. Those that people write (`is_prose`, by their key) are
    /// cleaned of everything; of the others, which programs read, only what looks like a secret goes.
    pub fn clean_json(&self, value: &mut Value, is_prose: impl Fn(&str) -> bool + Copy) {
        self.clean_json_of("", value, is_prose);
    }

    fn clean_json_of(&self, key: &str, value: &mut Value, is_prose: impl Fn(&str) -> bool + Copy) {
        match value {
            Value::String(text) if is_prose(key) => *text = self.clean_incoming(text),
            Value::String(text) => *text = Redactor::default().clean(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_json_of(key, item, is_prose)),
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(key, field)| self.clean_json_of(key, field, is_prose));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn known(secrets: Vec<String>) -> Vec<KnownSecret> {
    secrets.into_iter().filter(|secret| !secret.is_empty()).map(KnownSecret::new).collect()
}

fn find_all(text: &str, secret: &str) -> Vec<Range<usize>> {
    text.match_indices(secret).map(|(at, found)| at..at + found.len()).collect()
}

/// The text with the mask in these places.
fn mask(text: String, mut secrets: Vec<Range<usize>>) -> String {
    if secrets.is_empty() {
        return text;
    }
    secrets.sort_by_key(|secret| secret.start);
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for secret in secrets {
        if secret.start >= end {
            out.push_str(&text[end..secret.start]);
            out.push_str(MASK);
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
            assert_eq!(redactor.clean(text), clean);
            assert_eq!(redactor.clean(clean), clean, "once is enough");
        }
    }

    #[test]
    fn keys_of_aws_are_known_by_what_stands_before_them() {
        const KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
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
            let clean = redactor.clean(&format!("{before}{KEY}\nmore"));
            assert!(!clean.contains("wJalr") && clean.contains("***") && clean.ends_with("\nmore"), "{clean}");
        }
        assert_eq!(redactor.clean("secret_access_key = none"), "secret_access_key = none");
        let sum = "sha1 of it: 0123456789012345678901234567890123456789";
        assert_eq!(redactor.clean(sum), sum);
    }

    #[test]
    fn a_private_key_goes_to_its_end() {
        let redactor = Redactor::default();
        for kind in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let key = format!("-----BEGIN {kind}-----\nMIIEow\nAAAA\n-----END {kind}-----");
            assert_eq!(redactor.clean(&format!("a\n{key}\nb {key}")), "a\n***\nb ***");
            let escaped = key.replace('\n', "\\n");
            assert_eq!(redactor.clean(&format!("{{\"key\":\"{escaped}\"}}")), "{\"key\":\"***\"}");
        }
        assert_eq!(redactor.clean("a -----BEGIN PRIVATE KEY-----\nMIIEow\nAAAA"), "a ***");
        let public = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----";
        assert_eq!(redactor.clean(public), public);
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
                        let clean = redactor.clean(&format!("Authorization: Basic {encoded}, sent"));
                        assert_eq!(clean, "Authorization: Basic ***, sent", "{plain} {encoded}");
                        let (one, two) = encoded.split_at(encoded.len() / 2);
                        let wrapped = redactor.clean(&format!("{one}\n{two}.")).replace('\n', "");
                        let is_left = super::encoded::base64_pieces(secret).iter().any(|piece| wrapped.contains(piece));
                        assert!(!is_left && wrapped.contains("***"), "{one} {two} {wrapped}");
                    }
                }
            }
            let escaped: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
            assert_eq!(redactor.clean(&format!("?token={escaped}&x=1")), "?token=***&x=1");
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
            assert_eq!(redactor.clean(&format!("?token={some}&x=1")), "?token=***&x=1");
            let json = serde_json::to_string(&format!("a {secret} b")).unwrap();
            assert_eq!(redactor.clean(&json), "\"a *** b\"");
        }
    }

    #[test]
    fn values_stay_in_what_comes_in() {
        let redactor =
            Redactor::new(vec!["my-own-server-token".to_owned()]).with_values(vec!["/home/me/tmp".to_owned()]);
        let text = "my-own-server-token in /home/me/tmp";
        assert_eq!(redactor.clean(text), "*** in ***");
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
