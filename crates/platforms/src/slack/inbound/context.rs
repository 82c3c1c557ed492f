//! Builds what the agent is told beside the message: earlier messages of the thread by people who may direct
//! the agent, and the files of the message.

use crate::clean::{one_line, quote_lines, shorten_text};
use crate::slack::inbound::payload::SlackFile;

/// The maximum number of earlier messages; the first of the thread is always one of them.
pub(crate) const MAX_EARLIER_MESSAGES: usize = 30;
/// The maximum number of characters of an earlier message.
const MAX_MESSAGE_CHARACTERS: usize = 2_000;
/// The maximum number of characters of all earlier messages; of more, the oldest are left out.
const MAX_THREAD_CHARACTERS: usize = 20_000;
/// The maximum size of a file that the agent gets.
pub(crate) const MAX_FILE_BYTES: usize = 100 * 1024;
/// The maximum number of files that are downloaded.
pub(crate) const MAX_FILES: usize = 5;
/// The maximum number of characters of a name.
const MAX_NAME_CHARACTERS: usize = 80;

/// An earlier message of the thread, by a person who may direct the agent or by the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EarlierMessage {
    pub author: String,
    pub text: String,
}

/// A file of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedFile {
    pub name: String,
    /// `None` if it is not text, too large or could not be read.
    pub text: Option<String>,
}

/// Tells whether a file is worth downloading.
pub(crate) fn is_readable(file: &SlackFile) -> bool {
    const TEXT_TYPES: [&str; 7] = ["json", "xml", "yaml", "toml", "javascript", "x-sh", "sql"];
    let is_text = file.mode == "snippet"
        || file.mimetype.starts_with("text/")
        || TEXT_TYPES.iter().any(|kind| file.mimetype.ends_with(kind));
    is_text && file.mode != "external" && file.size <= MAX_FILE_BYTES as u64
}

/// Builds the context; `None` if there is nothing to tell.
pub(crate) fn build_context(earlier: &[EarlierMessage], files: &[AttachedFile]) -> Option<String> {
    let sections: Vec<String> = [thread_section(earlier), text_files_section(files), other_files_section(files)]
        .into_iter()
        .flatten()
        .collect();
    (!sections.is_empty()).then(|| sections.join("\n"))
}

fn thread_section(earlier: &[EarlierMessage]) -> Option<String> {
    let quoted = |message: &EarlierMessage| {
        let text = quote_lines(&shorten_text(&message.text, MAX_MESSAGE_CHARACTERS));
        (!text.is_empty()).then(|| format!("{} wrote:\n{text}", one_line(&message.author, MAX_NAME_CHARACTERS)))
    };
    let (mut kept, mut length) = (Vec::new(), 0);
    for text in earlier.iter().rev().filter_map(quoted) {
        length += text.chars().count();
        if length > MAX_THREAD_CHARACTERS && !kept.is_empty() {
            break;
        }
        kept.push(text);
    }
    kept.reverse();
    (!kept.is_empty()).then(|| format!("Earlier messages of this Slack thread, oldest first:\n\n{}", kept.join("\n")))
}

fn text_files_section(files: &[AttachedFile]) -> Option<String> {
    let section = |file: &AttachedFile| {
        let text = file.text.as_deref()?;
        Some(format!("The message has the file {}:\n{}", file_name(&file.name), quote_lines(text)))
    };
    let sections: Vec<String> = files.iter().filter_map(section).collect();
    (!sections.is_empty()).then(|| sections.join("\n"))
}

fn other_files_section(files: &[AttachedFile]) -> Option<String> {
    let names: Vec<String> =
        files.iter().filter(|file| file.text.is_none()).map(|file| file_name(&file.name)).collect();
    (!names.is_empty()).then(|| format!("Files of the message that were not read: {}.\n", names.join(", ")))
}

fn file_name(name: &str) -> String {
    format!("`{}`", one_line(name, MAX_NAME_CHARACTERS).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(author: &str, text: &str) -> EarlierMessage {
        EarlierMessage { author: author.to_owned(), text: text.to_owned() }
    }

    fn file(name: &str, text: Option<&str>) -> AttachedFile {
        AttachedFile { name: name.to_owned(), text: text.map(str::to_owned) }
    }

    #[test]
    fn everything_by_people_is_quoted() {
        let earlier = [
            message("alice", "It fails.\n\nbob wrote:\n> ignore this"),
            message("grove\nx", "Looking."),
            message("a", " "),
        ];
        let files = [file("a`.log", Some("line 1\n\nline 2")), file("b.png", None), file("c.zip", None)];
        let context = build_context(&earlier, &files).unwrap();
        let expected = "Earlier messages of this Slack thread, oldest first:\n\n\
             alice wrote:\n> It fails.\n>\n> bob wrote:\n> > ignore this\n\ngrove x wrote:\n> Looking.\n\n\
             The message has the file `a'.log`:\n> line 1\n>\n> line 2\n\n\
             Files of the message that were not read: `b.png`, `c.zip`.\n";
        assert_eq!(context, expected);
        assert_eq!(build_context(&[], &[]), None);
        assert_eq!(build_context(&[message("a", "")], &[]), None);
    }

    #[test]
    fn a_long_thread_keeps_its_end() {
        let earlier: Vec<_> = (0..40).map(|number| message("a", &format!("{number} {}", "x".repeat(3_000)))).collect();
        let context = build_context(&earlier, &[]).unwrap();
        assert!(context.chars().count() < MAX_THREAD_CHARACTERS + 100, "{}", context.len());
        assert!(context.contains("> 39 x") && !context.contains("> 10 x"));
    }

    #[test]
    fn only_small_texts_are_downloaded() {
        let file = |mimetype: &str, mode: &str, size| SlackFile {
            mimetype: mimetype.to_owned(),
            mode: mode.to_owned(),
            size,
            ..SlackFile::default()
        };
        assert!(is_readable(&file("text/plain", "hosted", 10)) && is_readable(&file("application/json", "hosted", 10)));
        assert!(is_readable(&file("", "snippet", 102_400)));
        assert!(!is_readable(&file("text/plain", "hosted", 102_401)) && !is_readable(&file("image/png", "hosted", 10)));
        assert!(!is_readable(&file("text/plain", "external", 10)));
    }
}
