//! Finds known secrets in the encodings in which programs print them.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// A shorter piece of base64 could match by chance.
const MIN_BASE64_LENGTH: usize = 8;

/// Returns the base64 pieces of a text that contains the secret, whatever text is before and after it: the
/// secret may begin at each of the three positions of a group, and either alphabet may be used.
pub fn base64_pieces(secret: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for shift in 0..3 {
        let bytes = [&[0; 3][..shift], secret.as_bytes()].concat();
        let whole = STANDARD_NO_PAD.encode(&bytes);
        // The characters at both ends also hold bits of the surrounding text.
        let (first, last) = ((8 * shift).div_ceil(6), 8 * bytes.len() / 6);
        let Some(piece) = whole.get(first..last).filter(|piece| piece.len() >= MIN_BASE64_LENGTH) else { continue };
        let url_safe = piece.replace('+', "-").replace('/', "_");
        if url_safe != piece {
            pieces.push(url_safe);
        }
        pieces.push(piece.to_owned());
    }
    pieces
}

/// Returns the whole range of each base64 text that contains one of these pieces; it may be wrapped into
/// lines.
pub fn find_base64<'a>(text: &str, pieces: impl Iterator<Item = &'a str>) -> Vec<Range<usize>> {
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return Vec::new();
    }
    let lines = JoinedLines::join_lines(text);
    let mut found = Vec::new();
    for piece in pieces {
        for (at, _) in lines.joined.match_indices(piece) {
            let (start, end) = (lines.offset_in_text(at), lines.offset_in_text(at + piece.len() - 1) + 1);
            let before = text[..start].rfind(|c| !is_base64(c)).map_or(0, |at| at + char_length(text, at));
            let after = text[end..].find(|c| !is_base64(c)).map_or(text.len(), |length| end + length);
            found.push(before..after);
        }
    }
    found
}

/// Tells whether a character belongs to either base64 alphabet.
pub fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=-_".contains(c)
}

fn char_length(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// A text without its line ends.
struct JoinedLines {
    joined: String,
    /// The start of each line in the joined text, and in the original text.
    starts: Vec<(usize, usize)>,
}

impl JoinedLines {
    fn join_lines(text: &str) -> Self {
        let (mut joined, mut starts, mut at) = (String::with_capacity(text.len()), Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            starts.push((joined.len(), at));
            joined.push_str(line.trim_end_matches(['\n', '\r']));
            at += line.len();
        }
        Self { joined, starts }
    }

    /// Returns the offset in the original text.
    fn offset_in_text(&self, at: usize) -> usize {
        let line = self.starts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        self.starts.get(line).map_or(at, |(start, place)| place + at - start)
    }
}

/// Finds a secret with some or all of its bytes escaped as in a URL: `%2F`.
pub fn find_escaped<'a>(text: &str, secrets: impl Iterator<Item = &'a str>) -> Vec<Range<usize>> {
    if !text.contains('%') {
        return Vec::new();
    }
    let (bytes, places) = unescape_text(text);
    let mut found = Vec::new();
    for secret in secrets.map(str::as_bytes) {
        let fits = |at: &usize| bytes[*at..].starts_with(secret);
        let starts = (0..bytes.len()).filter(|at| bytes[*at] == secret[0]).filter(fits);
        found.extend(starts.map(|at| places[at].start..places[at + secret.len() - 1].end));
    }
    found
}

/// Returns the bytes of a text, and the range of each.
fn unescape_text(text: &str) -> (Vec<u8>, Vec<Range<usize>>) {
    let raw = text.as_bytes();
    let (mut bytes, mut places, mut at) = (Vec::with_capacity(raw.len()), Vec::with_capacity(raw.len()), 0);
    while at < raw.len() {
        let escaped = raw.get(at..at + 3).and_then(|part| match part {
            [b'%', high, low] => Some(hex_digit_value(*high)? * 16 + hex_digit_value(*low)?),
            _ => None,
        });
        let length = if escaped.is_some() { 3 } else { 1 };
        bytes.push(escaped.unwrap_or(raw[at]));
        places.push(at..at + length);
        at += length;
    }
    (bytes, places)
}

fn hex_digit_value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
