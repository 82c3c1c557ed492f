//! Recognises secrets by their format.

use std::ops::Range;

/// The format of a service's tokens.
struct TokenShape {
    prefix: &'static str,
    /// The minimum number of characters after the prefix.
    shortest: usize,
    alphabet: fn(char) -> bool,
    /// The prefix could be part of a word, so it counts only where no word continues into it.
    like_a_word: bool,
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_alphanumeric_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn capital_or_digit(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit()
}

fn is_base64_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=".contains(c)
}

const fn token_shape(prefix: &'static str) -> TokenShape {
    TokenShape { prefix, shortest: 16, alphabet: is_word_char, like_a_word: false }
}

const TOKEN_SHAPES: [TokenShape; 21] = [
    token_shape("ghp_"),
    token_shape("gho_"),
    token_shape("ghu_"),
    token_shape("ghs_"),
    token_shape("ghr_"),
    token_shape("github_pat_"),
    token_shape("glpat-"),
    token_shape("xoxb-"),
    token_shape("xoxp-"),
    token_shape("xoxa-"),
    token_shape("xoxe-"),
    token_shape("xoxs-"),
    token_shape("xapp-"),
    token_shape("sk-ant-"),
    token_shape("sk-proj-"),
    TokenShape { like_a_word: true, ..token_shape("sk-") },
    // Npm's variables begin like its tokens, which have no other underscore.
    TokenShape { shortest: 30, alphabet: is_alphanumeric_char, like_a_word: true, ..token_shape("npm_") },
    TokenShape { alphabet: capital_or_digit, like_a_word: true, ..token_shape("AKIA") },
    TokenShape { alphabet: capital_or_digit, like_a_word: true, ..token_shape("ASIA") },
    // Our own tokens: a browser's session, and a link that works once.
    token_shape("grove_session_"),
    token_shape("grove_link_"),
];

/// Finds the tokens of well-known services, and our own.
pub fn find_tokens(text: &str) -> Vec<Range<usize>> {
    TOKEN_SHAPES.iter().flat_map(|shape| find_shape(text, shape)).collect()
}

fn find_shape(text: &str, shape: &TokenShape) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = text[from..].find(shape.prefix).map(|at| from + at) {
        let body = at + shape.prefix.len();
        let end = end_of_run(text, body, shape.alphabet);
        let inside_a_word =
            shape.like_a_word && text[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
        if inside_a_word || end - body < shape.shortest {
            from = body;
        } else {
            found.push(at..end);
            from = end;
        }
    }
    found
}

/// Returns the end of the run of such characters that begins here.
fn end_of_run(text: &str, from: usize, alphabet: fn(char) -> bool) -> usize {
    text[from..].find(|c| !alphabet(c)).map_or(text.len(), |length| from + length)
}

/// The names before a secret key of AWS, in lower case. The key by itself looks like any other text.
const AWS_KEY_NAMES: [&str; 6] = [
    "secret_access_key",
    "secretaccesskey",
    "secret-access-key",
    "secret access key",
    "aws_secret_key",
    "aws_session_token",
];

/// The minimum length of such a key; a secret key has 40 characters.
const MIN_AWS_KEY_LENGTH: usize = 32;

/// The maximum number of characters between a name and its key, as in `"SecretAccessKey" : "…"`.
const MAX_AWS_KEY_GAP: usize = 16;

/// Finds the secret keys of AWS: after their name, or after the id that belongs to them.
pub fn find_aws_keys(text: &str) -> Vec<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    let after_names = AWS_KEY_NAMES.iter().flat_map(|name| lower.match_indices(name)).map(|(at, name)| at + name.len());
    let ids = TOKEN_SHAPES.iter().filter(|shape| matches!(shape.prefix, "AKIA" | "ASIA"));
    let after_ids = ids.flat_map(|shape| find_shape(text, shape)).map(|id| id.end);
    after_names.chain(after_ids).filter_map(|end| aws_key_behind(text, end)).collect()
}

fn aws_key_behind(text: &str, from: usize) -> Option<Range<usize>> {
    let gap = text[from..].find(base64_start)?;
    let start = from + gap;
    let is_gap = |c: char| c.is_whitespace() || "\"'`:=>,;|\\[]()".contains(c);
    // A command-line prompt has a word in brackets here: `[None]: `.
    let told = text[from..start].trim_end().ends_with('[').then(|| text[start..].find("]: ").map(|at| start + at + 3));
    let start = told.flatten().unwrap_or(start);
    if start - from > MAX_AWS_KEY_GAP || !text[from..from + gap].chars().all(is_gap) {
        return None;
    }
    let end = end_of_run(text, start, is_base64_char);
    (end - start >= MIN_AWS_KEY_LENGTH).then_some(start..end)
}

fn base64_start(c: char) -> bool {
    is_base64_char(c) && c != '='
}

const KEY_BLOCK_BEGIN: &str = "-----BEGIN ";
const KEY_BLOCK_DASHES: &str = "-----";

/// The longest name of a block: `ENCRYPTED PRIVATE KEY` has 21 characters.
const MAX_BLOCK_NAME_LENGTH: usize = 64;

/// A private key in PEM or a similar format.
pub struct PrivateKeyBlock {
    pub start: usize,
    /// The end of its first line.
    pub head_end: usize,
    /// The text of its last line.
    pub last_line: String,
    /// `None`: its last line is missing.
    pub end: Option<usize>,
}

/// Returns the first private key from here on.
pub fn next_private_key(text: &str, from: usize) -> Option<PrivateKeyBlock> {
    let mut from = from;
    while let Some(start) = text[from..].find(KEY_BLOCK_BEGIN).map(|at| from + at) {
        let name_start = start + KEY_BLOCK_BEGIN.len();
        from = name_start;
        let Some(length) = text[name_start..].find(KEY_BLOCK_DASHES).filter(|length| *length <= MAX_BLOCK_NAME_LENGTH)
        else {
            continue;
        };
        let name = &text[name_start..name_start + length];
        if !name.contains("PRIVATE KEY") {
            continue;
        }
        let (head_end, last_line) = (name_start + length + KEY_BLOCK_DASHES.len(), format!("-----END {name}-----"));
        let end = text[head_end..].find(&last_line).map(|at| head_end + at + last_line.len());
        return Some(PrivateKeyBlock { start, head_end, last_line, end });
    }
    None
}

/// Finds private keys, from the first line to the last; without a last line, to the end of the text.
pub fn find_private_keys(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(block) = next_private_key(text, from) {
        let end = block.end.unwrap_or(text.len());
        found.push(block.start..end);
        from = end;
    }
    found
}
