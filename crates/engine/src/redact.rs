//! Secrets never leave in a message: the one place that takes them out of what people, logs and
//! records get.

use std::sync::Arc;

/// How the tokens of well-known services begin.
const PREFIXES: [&str; 17] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxe-",
    "xoxs-",
    "xapp-",
    "sk-ant-",
    "sk-proj-",
    "sk-",
    "AKIA",
];

/// What stands behind such a beginning, at least.
const SHORTEST: usize = 16;

/// Takes secrets out of texts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Arc<Vec<String>>,
}

impl Redactor {
    /// Also takes these out, whatever they look like.
    pub fn new(secrets: Vec<String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
        // A secret that contains another one goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets: Arc::new(secrets) }
    }

    pub fn clean(&self, text: &str) -> String {
        let mut text = grove_git::redact::credentials(text);
        for secret in self.secrets.iter().filter(|secret| text.contains(secret.as_str())).collect::<Vec<_>>() {
            text = text.replace(secret.as_str(), "***");
        }
        for prefix in PREFIXES {
            text = without_tokens(&text, prefix);
        }
        text
    }
}

fn without_tokens(text: &str, prefix: &str) -> String {
    let of_token = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(prefix) {
        let (before, token) = rest.split_at(at);
        let end = token.find(|c| !of_token(c)).unwrap_or(token.len());
        // Most beginnings are like no word; before those that are like one, a word must have ended.
        let like_a_word = matches!(prefix, "sk-" | "AKIA");
        let inside_a_word = like_a_word && before.chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
        out.push_str(before);
        if inside_a_word || end < prefix.len() + SHORTEST {
            out.push_str(&token[..prefix.len()]);
            rest = &token[prefix.len()..];
        } else {
            out.push_str("***");
            rest = &token[end..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
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
        ] {
            assert_eq!(redactor.clean(text), clean);
        }
    }
}
