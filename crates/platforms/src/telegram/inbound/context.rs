//! The text that the agent gets before a person's words: the message that is replied to, and attached files.

use crate::clean::{one_line, quote_lines, shorten_text};
use crate::telegram::inbound::wire::{FileAttachment, Message};

/// The largest file that the agent gets.
pub(crate) const MAX_FILE_BYTES: usize = 100 * 1024;
/// The number of characters of a replied message that the agent gets.
const MAX_REPLY_LENGTH: usize = 10_000;
/// The number of characters of a name.
const MAX_NAME_LENGTH: usize = 100;

/// The message that a person replies to.
#[derive(Debug)]
pub(crate) struct RepliedText {
    /// `None` if the bot wrote it.
    pub author: Option<String>,
    pub text: String,
}

/// An attached file with its text, if the agent gets that.
#[derive(Debug)]
pub(crate) struct AttachedFile {
    pub name: String,
    pub text: Option<String>,
}

/// Returns the context; `None` if there is nothing to say.
pub(crate) fn build_context(replied: Option<&RepliedText>, files: &[AttachedFile]) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(replied) = replied {
        let quoted = quote_lines(&shorten_text(&replied.text, MAX_REPLY_LENGTH));
        if !quoted.is_empty() {
            let whose = match &replied.author {
                Some(author) => format!("a message by {}", one_line(author, MAX_NAME_LENGTH)),
                None => "your message".to_owned(),
            };
            parts.push(format!("The person replies to {whose}:\n\n{quoted}"));
        }
    }
    for file in files {
        let name = one_line(&file.name, MAX_NAME_LENGTH).replace('`', "'");
        parts.push(match &file.text {
            Some(text) => format!("The attached file `{name}`:\n\n{}", quote_lines(text)),
            None => format!("A file is attached that is not shown here: `{name}`.\n"),
        });
    }
    (!parts.is_empty()).then(|| parts.join("\n").trim_end().to_owned())
}

/// Returns the names of the attachments that the agent cannot read, except for the document.
pub(crate) fn other_attachments(message: &Message) -> Vec<AttachedFile> {
    let named = |file: &Option<FileAttachment>, kind: &str| {
        file.as_ref().map(|file| file.file_name.clone().unwrap_or_else(|| kind.to_owned()))
    };
    let names = [
        message.photo.as_ref().map(|_| "photo".to_owned()),
        message.voice.as_ref().map(|_| "voice message".to_owned()),
        named(&message.audio, "audio"),
        named(&message.video, "video"),
    ];
    names.into_iter().flatten().map(|name| AttachedFile { name, text: None }).collect()
}

/// Tells whether a document may be a text that the agent can read.
pub(crate) fn may_be_text(file: &FileAttachment) -> bool {
    const TEXT_TYPES: [&str; 8] = [
        "application/json",
        "application/xml",
        "application/toml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
        "application/x-sh",
        "application/sql",
    ];
    let fits = file.file_size.is_none_or(|size| size <= MAX_FILE_BYTES as u64);
    let is_text = file.mime_type.as_deref().is_none_or(|kind| kind.starts_with("text/") || TEXT_TYPES.contains(&kind));
    fits && is_text
}

/// Returns the text of a file; `None` if it is binary.
pub(crate) fn file_text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_quoted() {
        assert_eq!(build_context(None, &[]), None);
        let reply = RepliedText { author: Some("@bob\n> x".to_owned()), text: "one\n<!-- hidden -->two".to_owned() };
        let files = [
            AttachedFile { name: "a`b.txt".to_owned(), text: Some("1\n2\n".to_owned()) },
            AttachedFile { name: "photo".to_owned(), text: None },
        ];
        assert_eq!(
            build_context(Some(&reply), &files).unwrap(),
            "The person replies to a message by @bob > x:\n\n> one\n> two\n\n\
             The attached file `a'b.txt`:\n\n> 1\n> 2\n\nA file is attached that is not shown here: `photo`."
        );
        let own = RepliedText { author: None, text: "done".to_owned() };
        assert_eq!(build_context(Some(&own), &[]).unwrap(), "The person replies to your message:\n\n> done");
    }

    #[test]
    fn only_small_texts_are_read() {
        let file = |kind: Option<&str>, size| FileAttachment {
            file_id: String::new(),
            file_name: None,
            mime_type: kind.map(str::to_owned),
            file_size: size,
        };
        assert!(may_be_text(&file(Some("text/x-rust"), Some(102_400))) && may_be_text(&file(None, None)));
        assert!(!may_be_text(&file(Some("text/plain"), Some(102_401))));
        assert!(!may_be_text(&file(Some("image/png"), Some(1))));
        assert_eq!(file_text(b"a\0b".to_vec()), None);
        assert_eq!(file_text(b"\xff".to_vec()), None);
    }
}
