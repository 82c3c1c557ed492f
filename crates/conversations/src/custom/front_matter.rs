//! What stands above the words of a command, between two lines of `---`.
//!
//! It looks like YAML and mostly is. Real files hold what strict YAML refuses (`description: a: b`), so
//! it is read line by line: a key and what stands behind it, going on in indented lines and list items.

/// What stands above the words.
#[derive(Debug, Default)]
pub struct Front {
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    /// In small letters, with `_` for `-`.
    key: String,
    /// What stands behind the key, and below it.
    lines: Vec<String>,
}

/// A file's front matter and its words. One that is not closed is none.
pub fn split(text: &str) -> (Front, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut front = Front::default();
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        match (number, line.trim_end()) {
            (0, "---") => {}
            (0, _) => break,
            (_, "---" | "...") => return (front, &text[at..]),
            (_, line) => front.take(line),
        }
    }
    (Front::default(), text)
}

/// What a text says first: a line without the marks of a heading.
pub fn heading(text: &str) -> Option<String> {
    let mut lines = text.lines().map(|line| line.trim_start_matches(['#', ' ']).trim_end());
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

impl Front {
    fn take(&mut self, line: &str) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            return;
        }
        let goes_on = line.starts_with([' ', '\t', ']']) || line == "-" || line.starts_with("- ");
        match (line.split_once(':'), self.fields.last_mut()) {
            (_, Some(field)) if goes_on => field.lines.push(line.trim().to_owned()),
            (Some((key, value)), _) if !goes_on => {
                let key = unquoted(key.trim()).to_ascii_lowercase().replace('-', "_");
                let lines = vec![value.trim().to_owned()];
                self.fields.push(Field { key, lines });
            }
            _ => {}
        }
    }

    /// The last that was said of a key.
    fn lines(&self, key: &str) -> Option<&[String]> {
        let field = self.fields.iter().rev().find(|field| field.key == key)?;
        field.lines.iter().any(|line| !line.is_empty()).then_some(&field.lines[..])
    }

    /// A text, in one line.
    pub fn text(&self, key: &str) -> Option<String> {
        let lines = self.lines(key)?;
        // `>` and `|` only say that the text is below.
        let is_below = matches!(lines[0].trim_end_matches(['+', '-']), ">" | "|");
        let text = lines[usize::from(is_below)..].join(" ");
        Some(unquoted(text.trim())).filter(|text| !text.is_empty())
    }

    /// One word in small letters; behind it there may be a comment.
    pub fn word(&self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        let word = text.split(" #").next().unwrap_or_default().trim();
        Some(unquoted(word).to_lowercase()).filter(|word| !word.is_empty())
    }

    /// A list: `[A, B]`, `A, B`, or an item in each line. What is between parentheses stays together.
    pub fn list(&self, key: &str) -> Result<Vec<String>, &'static str> {
        let Some(lines) = self.lines(key) else { return Ok(Vec::new()) };
        let text = lines.iter().map(|line| line.strip_prefix('-').unwrap_or(line)).collect::<Vec<_>>().join("\n");
        let text = text.trim();
        let text = match text.strip_prefix('[') {
            Some(inside) => without_comment(inside).strip_suffix(']').ok_or("is not closed")?,
            None => text,
        };
        let items = items(text)?;
        if items.is_empty() { Err("is empty") } else { Ok(items) }
    }
}

/// A list in brackets without a comment behind it.
fn without_comment(text: &str) -> &str {
    let comment = text.rfind(']').filter(|end| text[end + 1..].trim_start().starts_with('#'));
    comment.map_or(text, |end| &text[..=end]).trim_end()
}

/// Separated by commas and white space, but for what is quoted or between parentheses.
fn items(text: &str) -> Result<Vec<String>, &'static str> {
    let mut items = Vec::new();
    let (mut item, mut quote, mut depth, mut comment) = (String::new(), None, 0_usize, false);
    for c in text.chars().chain(['\n']) {
        match (quote, c) {
            (None, '\n') if comment => comment = false,
            _ if comment => {}
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => item.push(c),
            (None, '"' | '\'') if depth == 0 && item.is_empty() => quote = Some(c),
            (None, '#') if depth == 0 && item.is_empty() => comment = true,
            (None, c) if depth == 0 && (c == ',' || c.is_whitespace()) => {
                items.extend(Some(std::mem::take(&mut item)).filter(|item| !item.is_empty()));
            }
            (None, c) => {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.checked_sub(1).ok_or("has a parenthesis that was not opened")?,
                    _ => {}
                }
                item.push(c);
            }
        }
    }
    if quote.is_some() || depth > 0 {
        return Err("has a quote or a parenthesis that is not closed");
    }
    if items.iter().any(|item: &String| item.chars().any(char::is_control)) {
        return Err("holds characters that cannot be seen");
    }
    Ok(items)
}

fn unquoted(text: &str) -> String {
    for quote in ['"', '\''] {
        let inside = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside {
            return if quote == '"' { inside.replace("\\\"", "\"") } else { inside.replace("''", "'") };
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(lines: &str) -> Front {
        split(&format!("---\n{lines}\n---\nwords")).0
    }

    #[test]
    fn the_words_are_what_stands_below() {
        let cases = [
            ("words", "words"),
            ("---\na: b\n---\nwords", "words"),
            ("---\r\na: b\r\n---\r\nwords", "words"),
            ("\u{feff}---\na: b\n...\nwords", "words"),
            ("---\n---\nwords", "words"),
            ("---\na: b\n---", ""),
            ("---\nnever closed", "---\nnever closed"),
            (" ---\na: b\n---\nwords", " ---\na: b\n---\nwords"),
            ("words\n---\na: b\n---\n", "words\n---\na: b\n---\n"),
            ("", ""),
        ];
        for (text, words) in cases {
            assert_eq!(split(text).1, words, "{text:?}");
        }
        assert_eq!(front("a: b").text("a").as_deref(), Some("b"));
        assert_eq!(split("---\na: b\nnever closed").0.text("a"), None);
    }

    #[test]
    fn texts_are_read_as_people_write_them() {
        let cases = [
            ("d: a: b", Some("a: b")),
            ("d: fix #42", Some("fix #42")),
            ("d: \"say \\\"hi\\\"\"", Some("say \"hi\"")),
            ("d: 'it''s'", Some("it's")),
            ("d: >-\n  one\n  two", Some("one two")),
            ("d: |\n  one\n\n  two", Some("one two")),
            ("d: one\n  two", Some("one two")),
            ("D: x", Some("x")),
            ("\"d\": x", Some("x")),
            ("d:", None),
            ("d: ''", None),
            ("d: a\nd: b", Some("b")),
            ("# d: x", None),
            ("no key here", None),
            ("  d: x", None),
        ];
        for (lines, text) in cases {
            assert_eq!(front(lines).text("d").as_deref(), text, "{lines:?}");
        }
        assert_eq!(front("argument-hint: [a] [b]").text("argument_hint").as_deref(), Some("[a] [b]"));
        assert_eq!(front("t: 'Read' # only").word("t").as_deref(), Some("read"));
    }

    #[test]
    fn lists_are_read_however_they_are_written() {
        let cases: [(&str, &[&str]); 16] = [
            ("t: Read", &["Read"]),
            ("t: Read, Grep", &["Read", "Grep"]),
            ("t: Read Grep", &["Read", "Grep"]),
            ("t: [Read, Grep]", &["Read", "Grep"]),
            ("t: [\"Read\", 'Grep'] # few", &["Read", "Grep"]),
            ("t: [Read,\n  Grep,\n]", &["Read", "Grep"]),
            ("t:\n  - Read\n  - Grep", &["Read", "Grep"]),
            ("t:\n- Read # one\n- 'Grep'\n", &["Read", "Grep"]),
            ("t:\n# none yet\n  - Read", &["Read"]),
            ("t: Bash(git add:*, x), Read", &["Bash(git add:*, x)", "Read"]),
            ("t: Bash(git commit -m \"a, b\")", &["Bash(git commit -m \"a, b\")"]),
            ("t: [Bash(f(x, y):*), Read]", &["Bash(f(x, y):*)", "Read"]),
            ("t: \"Bash(git push:*)\"", &["Bash(git push:*)"]),
            ("t: Bash(echo #1:*)", &["Bash(echo #1:*)"]),
            ("t:", &[]),
            ("other: x", &[]),
        ];
        for (lines, list) in cases {
            assert_eq!(front(lines).list("t").unwrap(), list, "{lines:?}");
        }
        for wrong in ["t: []", "t: [Read", "t: Bash(x", "t: Bash)", "t: 'Read", "t: \"\"", "t: a\u{1}b"] {
            assert!(front(wrong).list("t").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_text_without_a_description_has_its_first_line() {
        assert_eq!(heading("\n## Review\n\nwords").as_deref(), Some("Review"));
        assert_eq!(heading("#\n \n"), None);
    }
}
