//! The hidden last line of our own comments.
//!
//! It distinguishes our comments from those that a person writes with the same account (a token may belong
//! to a person), and finds a comment again whose posting was interrupted before it was recorded.

use std::fmt;

/// Identifies the part of a message that a comment contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentMarker {
    pub message: String,
    /// Counted from one.
    pub part: usize,
}

const MARKER_BEGIN: &str = "<!-- grove ";
const MARKER_END: &str = " -->";

impl CommentMarker {
    /// Creates a marker; `None` if it could not be parsed again.
    pub fn new(message: &str, part: usize) -> Option<Self> {
        let plain = !message.is_empty() && message.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        // Two dashes would end an HTML comment.
        (plain && !message.contains("--") && part > 0).then(|| Self { message: message.to_owned(), part })
    }

    /// Returns the text followed by the marker.
    pub fn put_on(&self, text: &str) -> String {
        format!("{}\n\n{self}", text.trim_end())
    }

    /// Returns the number of characters that the marker adds to a text.
    pub fn added_length(&self) -> usize {
        "\n\n".len() + self.to_string().len()
    }

    /// Returns the marker of a comment: its complete last line. A quoted marker does not count.
    pub fn from_comment(body: &str) -> Option<Self> {
        let line = body.trim_end().lines().next_back()?;
        let (message, part) = line.strip_prefix(MARKER_BEGIN)?.strip_suffix(MARKER_END)?.split_once(' ')?;
        Self::new(message, part.parse().ok()?)
    }
}

impl fmt::Display for CommentMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARKER_BEGIN}{} {}{MARKER_END}", self.message, self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_on_is_found_again() {
        let marker = CommentMarker::new("0199e4b0-7a3c-7c3e-9e63-1f0c7c0a9b11", 2).unwrap();
        let body = marker.put_on("Done.\n");
        assert_eq!(body, "Done.\n\n<!-- grove 0199e4b0-7a3c-7c3e-9e63-1f0c7c0a9b11 2 -->");
        assert_eq!(body.len(), "Done.".len() + marker.added_length());
        assert_eq!(CommentMarker::from_comment(&body), Some(marker.clone()));
        assert_eq!(CommentMarker::from_comment(&body.replace('\n', "\r\n")), Some(marker.clone()));
        assert_eq!(CommentMarker::from_comment(&format!("{body}\n\n")), Some(marker));
        assert!(
            CommentMarker::new("a--b", 1).is_none()
                && CommentMarker::new("a b", 1).is_none()
                && CommentMarker::new("a", 0).is_none()
        );
    }

    #[test]
    fn a_quoted_marker_is_none() {
        let body = CommentMarker::new("abc", 1).unwrap().put_on("Done.");
        let quoted: String = body.lines().map(|line| format!("> {line}\n")).collect();
        assert_eq!(CommentMarker::from_comment(&quoted), None);
        assert_eq!(CommentMarker::from_comment(&format!("{quoted}\nGo on, please")), None);
        assert_eq!(CommentMarker::from_comment(&format!("{body}\nGo on, please")), None);
        assert_eq!(CommentMarker::from_comment("Done."), None);
        assert_eq!(CommentMarker::from_comment(""), None);
    }
}
