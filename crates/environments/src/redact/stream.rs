//! Redacts a text that arrives in pieces: it outputs nothing that may be the beginning of a secret.

use crate::redact::encoded::is_base64;
use crate::redact::shapes::next_private_key;
use crate::redact::{Redactor, SECRET_MASK};

/// A longer line is output in pieces.
const MAX_STREAM_LINE_LENGTH: usize = 64 * 1024;

/// The length that is held back of such a line, or of many lines of base64: only a private key is longer.
const HELD_BACK_LENGTH: usize = 4 * 1024;

/// The shortest full line that `base64` and similar programs write before they begin a new line.
const MIN_WRAPPED_LINE_LENGTH: usize = 60;

/// Redacts a text that arrives in pieces, and outputs whole lines.
#[derive(Debug)]
pub struct RedactedStream {
    redactor: Redactor,
    /// The text that was not output yet.
    waiting: String,
    /// The last line of the private key that the text is inside of. Nothing is output before that line.
    hidden_until: Option<String>,
    /// The beginning of the current line was skipped: the rest of it is not output either.
    is_line_lost: bool,
}

impl RedactedStream {
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, waiting: String::new(), hidden_until: None, is_line_lost: false }
    }

    /// Takes a piece that is not to be output, as cheaply as possible. The text after it is output as if this
    /// piece had been output too.
    pub fn pass_over(&mut self, piece: &str) {
        self.take_piece(piece);
        if self.is_due() {
            while self.hide_private_key(None) {}
            let end = self.whole_part(&self.waiting);
            self.is_line_lost |= end > 0 && !self.waiting[..end].ends_with('\n');
            self.waiting.drain(..end);
        }
    }

    /// Takes a piece, and returns the text that is complete by now; often nothing.
    pub fn push_piece(&mut self, piece: &str) -> String {
        self.take_piece(piece);
        let mut out = String::new();
        if self.is_due() {
            while self.hide_private_key(Some(&mut out)) {}
            let clean = self.redactor.redact_text(&self.waiting);
            let end = self.whole_part(&clean);
            out.push_str(&clean[..end]);
            // Already redacted, so that only the incomplete rest can be part of a secret.
            self.waiting = clean[end..].to_owned();
        }
        out
    }

    fn take_piece(&mut self, piece: &str) {
        self.waiting.push_str(piece);
        if self.is_line_lost {
            let line_end = self.waiting.find('\n').map(|at| at + 1);
            self.waiting.drain(..line_end.unwrap_or(self.waiting.len()));
            self.is_line_lost = line_end.is_none();
        }
    }

    fn is_due(&self) -> bool {
        self.waiting.contains('\n') || self.waiting.len() > MAX_STREAM_LINE_LENGTH || self.hidden_until.is_some()
    }

    /// Hides the known part of a private key that has no end yet, and outputs the text before it; tells
    /// whether anything changed.
    fn hide_private_key(&mut self, out: Option<&mut String>) -> bool {
        if let Some(last_line) = &self.hidden_until {
            return match self.waiting.find(last_line) {
                Some(at) => {
                    self.waiting.drain(..at + last_line.len());
                    self.hidden_until = None;
                    true
                }
                None => {
                    // The text may end with the beginning of the key's last line.
                    let kept = self.waiting.len().saturating_sub(last_line.len());
                    let kept = (kept..=self.waiting.len()).find(|at| self.waiting.is_char_boundary(*at));
                    self.waiting.drain(..kept.unwrap_or_default());
                    false
                }
            };
        }
        let mut from = 0;
        while let Some(block) = next_private_key(&self.waiting, from) {
            if let Some(end) = block.end {
                from = end;
                continue;
            }
            if let Some(out) = out {
                out.push_str(&self.redactor.redact_text(&self.waiting[..block.start]));
                out.push_str(SECRET_MASK);
            }
            self.waiting.drain(..block.head_end);
            self.hidden_until = Some(block.last_line);
            return true;
        }
        false
    }

    /// Returns the end of the part of a text that no secret can reach into from text that is still to come.
    fn whole_part(&self, text: &str) -> usize {
        if self.hidden_until.is_some() {
            return 0;
        }
        let mut end = text.rfind('\n').map_or(0, |at| at + 1);
        // A line of base64 continues in the next one.
        while end > 0 {
            let start = text[..end - 1].rfind('\n').map_or(0, |at| at + 1);
            let line = text[start..end].trim_end();
            if line.len() < MIN_WRAPPED_LINE_LENGTH || !line.chars().all(is_base64) {
                break;
            }
            end = start;
        }
        let is_wrapped = text[end..].contains('\n');
        if text.len() - end > if is_wrapped { 2 * HELD_BACK_LENGTH } else { MAX_STREAM_LINE_LENGTH } {
            let most = text.len() - HELD_BACK_LENGTH;
            end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Returns the whole output for a text that arrives in pieces of this length and then ends.
    fn stream_in_pieces(redactor: &Redactor, text: &str, length: usize) -> String {
        let mut stream = RedactedStream::new(redactor.clone());
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(length).map(|piece| piece.iter().collect::<String>());
        let mut out: String = pieces.map(|piece| stream.push_piece(&piece)).collect();
        out += &stream.push_piece("\n\n");
        out
    }

    #[test]
    fn a_secret_in_pieces_is_a_secret() {
        let secret = "a configured secret/with+signs";
        let redactor = Redactor::new(vec![secret.to_owned()]);
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAA\n-----END RSA PRIVATE KEY-----";
        let long = STANDARD.encode(format!("{}{secret}{}", "x".repeat(100), "y".repeat(100)));
        let wrapped: Vec<String> =
            long.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        let text = format!(
            "one ghp_0123456789abcdefghij\n{key}\ntwo {secret} three\n{key} four\n{}\nfive \u{e4}\n",
            wrapped.join("\n")
        );
        for length in [1, 2, 3, 7, 30, 77, 5000] {
            let out = stream_in_pieces(&redactor, &text, length);
            for part in ["ghp_", "MIIE", "AAAA", "PRIVATE", "configured", "signs"] {
                assert!(!out.contains(part), "{length} {part}: {out}");
            }
            let pieces = super::super::encoded::base64_pieces(secret);
            let joined = out.replace('\n', "");
            assert!(!pieces.iter().any(|piece| joined.contains(piece)), "{length}: {out}");
            assert!(out.starts_with("one ***\n***\ntwo *** three\n*** four\n"), "{length}: {out}");
            assert!(out.ends_with("\nfive \u{e4}\n\n\n"), "{length}: {out}");
        }
    }

    #[test]
    fn a_watcher_that_joins_within_a_secret_sees_no_part_of_it() {
        let redactor = Redactor::new(vec!["a configured secret".to_owned()]);
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEow\nAAAA\n-----END PRIVATE KEY-----";
        let long = "x".repeat(MAX_STREAM_LINE_LENGTH);
        let short_lines = format!("one a configured secret\n{key}\nghp_0123456789abcdefghij two\n");
        let long_line = format!("{long} a configured secret {long}\n");
        let both = format!("{short_lines}{long_line}");
        let cases: [(&str, Vec<usize>); 3] = [
            (&short_lines, (0..short_lines.len()).collect()),
            (&long_line, (long.len() - 115..long.len() + 45).collect()),
            (&both, (0..160).step_by(10).collect()),
        ];
        for (text, places) in cases {
            for at in places {
                let mut stream = RedactedStream::new(redactor.clone());
                for piece in text.as_bytes()[..at].chunks(50) {
                    stream.pass_over(&String::from_utf8_lossy(piece));
                }
                let out = stream.push_piece(&text[at..]) + &stream.push_piece("the end\n");
                for part in ["ghp_", "abcdefghij", "MIIE", "AAAA", "configured", "secret"] {
                    assert!(!out.contains(part), "{at} {part}: {}", &out[..out.len().min(300)]);
                }
                assert!(out.ends_with("\nthe end\n") || out == "the end\n", "{at}");
            }
        }
    }

    #[test]
    fn a_key_without_an_end_hides_the_rest() {
        let text = format!("before\n-----BEGIN PRIVATE KEY-----\n{}", "MIIEow\n".repeat(20_000));
        for length in [5, 1000, 1_000_000] {
            assert_eq!(stream_in_pieces(&Redactor::default(), &text, length), "before\n***", "{length}");
        }
    }

    #[test]
    fn a_very_long_line_is_given_out_in_pieces_without_its_secrets() {
        let redactor = Redactor::default();
        let text = "x".repeat(30).repeat(4_000) + ",ghp_0123456789abcdefghij," + &"y".repeat(100_000);
        let out = stream_in_pieces(&redactor, &text, 100);
        assert_eq!(out.len(), text.len() - "ghp_0123456789abcdefghij".len() + 3 + 2);
        assert!(out.contains(",***,"));
    }
}
