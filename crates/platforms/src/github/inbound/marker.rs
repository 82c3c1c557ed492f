//! The hidden line that our own comments end with.
//!
//! It tells our comments from those that a person writes with the same account (a token may be a
//! person's), and finds a comment again whose sending was cut short before it was written down.

use std::fmt;

/// Which part of which message a comment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    pub message: String,
    /// Counted from one.
    pub part: usize,
}

const BEGIN: &str = "<!-- grove ";
const END: &str = " -->";

impl Marker {
    /// `None` for what could not be read again.
    pub fn new(message: &str, part: usize) -> Option<Self> {
        let plain = !message.is_empty() && message.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        // Two dashes would end a comment.
        (plain && !message.contains("--") && part > 0).then(|| Self { message: message.to_owned(), part })
    }

    /// The text with the marker behind it.
    pub fn put_on(&self, text: &str) -> String {
        format!("{}\n\n{self}", text.trim_end())
    }

    /// How many characters it adds to a text.
    pub fn length(&self) -> usize {
        "\n\n".len() + self.to_string().len()
    }

    /// The marker of a comment: its last line, and nothing but that. A quoted one is none.
    pub fn of(body: &str) -> Option<Self> {
        let line = body.trim_end().lines().next_back()?;
        let (message, part) = line.strip_prefix(BEGIN)?.strip_suffix(END)?.split_once(' ')?;
        Self::new(message, part.parse().ok()?)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGIN}{} {}{END}", self.message, self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_on_is_found_again() {
        let marker = Marker::new("0199e4b0-7a3c-7c3e-9e63-1f0c7c0a9b11", 2).unwrap();
        let body = marker.put_on("Done.\n");
        assert_eq!(body, "Done.\n\n<!-- grove 0199e4b0-7a3c-7c3e-9e63-1f0c7c0a9b11 2 -->");
        assert_eq!(body.len(), "Done.".len() + marker.length());
        assert_eq!(Marker::of(&body), Some(marker.clone()));
        assert_eq!(Marker::of(&body.replace('\n', "\r\n")), Some(marker.clone()));
        assert_eq!(Marker::of(&format!("{body}\n\n")), Some(marker));
        assert!(Marker::new("a--b", 1).is_none() && Marker::new("a b", 1).is_none() && Marker::new("a", 0).is_none());
    }

    #[test]
    fn a_quoted_marker_is_none() {
        let body = Marker::new("abc", 1).unwrap().put_on("Done.");
        let quoted: String = body.lines().map(|line| format!("> {line}\n")).collect();
        assert_eq!(Marker::of(&quoted), None);
        assert_eq!(Marker::of(&format!("{quoted}\nGo on, please")), None);
        assert_eq!(Marker::of(&format!("{body}\nGo on, please")), None);
        assert_eq!(Marker::of("Done."), None);
        assert_eq!(Marker::of(""), None);
    }
}
