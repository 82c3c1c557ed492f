//! Secrets that are known by what they look like.

use std::ops::Range;

/// How the tokens of a service look.
struct TokenShape {
    prefix: &'static str,
    /// How many characters stand behind the prefix, at least.
    shortest: usize,
    alphabet: fn(char) -> bool,
    /// The prefix is like a part of a word: before it, a word must have ended.
    like_a_word: bool,
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn capital_or_digit(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit()
}

fn base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=".contains(c)
}

const fn shape(prefix: &'static str) -> TokenShape {
    TokenShape { prefix, shortest: 16, alphabet: word, like_a_word: false }
}

const TOKEN_SHAPES: [TokenShape; 21] = [
    shape("ghp_"),
    shape("gho_"),
    shape("ghu_"),
    shape("ghs_"),
    shape("ghr_"),
    shape("github_pat_"),
    shape("glpat-"),
    shape("xoxb-"),
    shape("xoxp-"),
    shape("xoxa-"),
    shape("xoxe-"),
    shape("xoxs-"),
    shape("xapp-"),
    shape("sk-ant-"),
    shape("sk-proj-"),
    TokenShape { like_a_word: true, ..shape("sk-") },
    // Variables of npm begin like its tokens, which have no other underscore.
    TokenShape { shortest: 30, alphabet: alphanumeric, like_a_word: true, ..shape("npm_") },
    TokenShape { alphabet: capital_or_digit, like_a_word: true, ..shape("AKIA") },
    TokenShape { alphabet: capital_or_digit, like_a_word: true, ..shape("ASIA") },
    // Our own: a browser's session, and a link that works once.
    shape("grove_session_"),
    shape("grove_link_"),
];

/// The tokens of well-known services, and our own.
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

/// Where a run of such characters ends that begins here.
fn end_of_run(text: &str, from: usize, alphabet: fn(char) -> bool) -> usize {
    text[from..].find(|c| !alphabet(c)).map_or(text.len(), |length| from + length)
}

/// What stands before a secret key of AWS, in lower case. By itself it looks like any other text.
const AWS_KEY_NAMES: [&str; 6] = [
    "secret_access_key",
    "secretaccesskey",
    "secret-access-key",
    "secret access key",
    "aws_secret_key",
    "aws_session_token",
];

/// How many characters such a key has at least; a secret key has 40.
const SHORTEST_AWS_KEY: usize = 32;

/// How many characters may stand between a name and its key, as in `"SecretAccessKey" : "…"`.
const LONGEST_AWS_GAP: usize = 16;

/// The secret keys of AWS: behind their name, or behind the id that belongs to them.
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
    // A prompt of the command line has a word in brackets there: `[None]: `.
    let told = text[from..start].trim_end().ends_with('[').then(|| text[start..].find("]: ").map(|at| start + at + 3));
    let start = told.flatten().unwrap_or(start);
    if start - from > LONGEST_AWS_GAP || !text[from..from + gap].chars().all(is_gap) {
        return None;
    }
    let end = end_of_run(text, start, base64);
    (end - start >= SHORTEST_AWS_KEY).then_some(start..end)
}

fn base64_start(c: char) -> bool {
    base64(c) && c != '='
}

const BLOCK_BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// The longest name of a block: `ENCRYPTED PRIVATE KEY` has 21 characters.
const LONGEST_BLOCK_NAME: usize = 64;

/// A private key in PEM or a format like it.
pub struct PrivateKeyBlock {
    pub start: usize,
    /// Where its first line ends.
    pub head_end: usize,
    /// What its last line is.
    pub last_line: String,
    /// `None`: its last line is not there.
    pub end: Option<usize>,
}

/// The first private key from here on.
pub fn next_private_key(text: &str, from: usize) -> Option<PrivateKeyBlock> {
    let mut from = from;
    while let Some(start) = text[from..].find(BLOCK_BEGIN).map(|at| from + at) {
        let name_start = start + BLOCK_BEGIN.len();
        from = name_start;
        let Some(length) = text[name_start..].find(DASHES).filter(|length| *length <= LONGEST_BLOCK_NAME) else {
            continue;
        };
        let name = &text[name_start..name_start + length];
        if !name.contains("PRIVATE KEY") {
            continue;
        }
        let (head_end, last_line) = (name_start + length + DASHES.len(), format!("-----END {name}-----"));
        let end = text[head_end..].find(&last_line).map(|at| head_end + at + last_line.len());
        return Some(PrivateKeyBlock { start, head_end, last_line, end });
    }
    None
}

/// Private keys, from their first line to their last one; without a last one, to the end of the text.
pub fn find_private_keys(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(block) = next_private_key(text, from) {
        let end = block.end.unwrap_or(text.len());
        found.push(block.start..end);
        from = end;
    }
    found
}
