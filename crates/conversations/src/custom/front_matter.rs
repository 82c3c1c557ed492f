//! The front matter of a command file, between two lines of `---`.
//!
//! It looks like YAML and mostly is. Real files contain lines that strict YAML refuses (`description: a:
//! b`), so it is parsed line by line: a key and its value, which continues in indented lines and list items.

/// The front matter of a file.
#[derive(Debug, Default)]
pub struct FrontMatter {
    fields: Vec<FrontMatterField>,
}

#[derive(Debug)]
struct FrontMatterField {
    /// In lower case, with `_` for `-`.
    key: String,
    /// The value after the key and below it.
    lines: Vec<String>,
}

/// Splits a file into its front matter and its text. Front matter that is not closed counts as text.
pub fn split_front_matter(text: &str) -> (FrontMatter, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut front = FrontMatter::default();
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        match (number, line.trim_end()) {
            (0, "---") => {}
            (0, _) => break,
            (_, "---" | "...") => return (front, &text[at..]),
            (_, line) => front.add_line(line),
        }
    }
    (FrontMatter::default(), text)
}

/// Returns the first line of a text, without the marks of a heading.
pub fn first_heading(text: &str) -> Option<String> {
    let mut lines = text.lines().map(|line| line.trim_start_matches(['#', ' ']).trim_end());
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

impl FrontMatter {
    fn add_line(&mut self, line: &str) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            return;
        }
        let goes_on = line.starts_with([' ', '\t', ']']) || line == "-" || line.starts_with("- ");
        match (line.split_once(':'), self.fields.last_mut()) {
            (_, Some(field)) if goes_on => field.lines.push(line.trim().to_owned()),
            (Some((key, value)), _) if !goes_on => {
                let key = strip_quotes(key.trim()).to_ascii_lowercase().replace('-', "_");
                let lines = vec![value.trim().to_owned()];
                self.fields.push(FrontMatterField { key, lines });
            }
            _ => {}
        }
    }

    /// Returns the last value of a key.
    fn field_lines(&self, key: &str) -> Option<&[String]> {
        let field = self.fields.iter().rev().find(|field| field.key == key)?;
        field.lines.iter().any(|line| !line.is_empty()).then_some(&field.lines[..])
    }

    /// Returns the value of a key as one line of text.
    pub fn text_field(&self, key: &str) -> Option<String> {
        let lines = self.field_lines(key)?;
        // `>` and `|` only mark that the text is below.
        let is_below = matches!(lines[0].trim_end_matches(['+', '-']), ">" | "|");
        let text = lines[usize::from(is_below)..].join(" ");
        Some(strip_quotes(text.trim())).filter(|text| !text.is_empty())
    }

    /// Returns the value as one word in lower case, without a comment after it.
    pub fn word_field(&self, key: &str) -> Option<String> {
        let text = self.text_field(key)?;
        let word = text.split(" #").next().unwrap_or_default().trim();
        Some(strip_quotes(word).to_lowercase()).filter(|word| !word.is_empty())
    }

    /// Returns the value as a list: `[A, B]`, `A, B`, or one item per line. Text in parentheses stays
    /// together.
    pub fn list_field(&self, key: &str) -> Result<Vec<String>, &'static str> {
        let Some(lines) = self.field_lines(key) else { return Ok(Vec::new()) };
        let text = lines.iter().map(|line| line.strip_prefix('-').unwrap_or(line)).collect::<Vec<_>>().join("\n");
        let text = text.trim();
        let text = match text.strip_prefix('[') {
            Some(inside) => without_comment(inside).strip_suffix(']').ok_or("is not closed")?,
            None => text,
        };
        let items = split_items(text)?;
        if items.is_empty() { Err("is empty") } else { Ok(items) }
    }
}

/// Removes the comment after a list in brackets.
fn without_comment(text: &str) -> &str {
    let comment = text.rfind(']').filter(|end| text[end + 1..].trim_start().starts_with('#'));
    comment.map_or(text, |end| &text[..=end]).trim_end()
}

/// Splits a text at commas and white space, except in quotes or parentheses.
fn split_items(text: &str) -> Result<Vec<String>, &'static str> {
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

fn strip_quotes(text: &str) -> String {
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

    fn parse_front_matter(lines: &str) -> FrontMatter {
        split_front_matter(&format!("---\n{lines}\n---\nwords")).0
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
            assert_eq!(split_front_matter(text).1, words, "{text:?}");
        }
        assert_eq!(parse_front_matter("a: b").text_field("a").as_deref(), Some("b"));
        assert_eq!(split_front_matter("---\na: b\nnever closed").0.text_field("a"), None);
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
            assert_eq!(parse_front_matter(lines).text_field("d").as_deref(), text, "{lines:?}");
        }
        assert_eq!(
            parse_front_matter("argument-hint: [a] [b]").text_field("argument_hint").as_deref(),
            Some("[a] [b]")
        );
        assert_eq!(parse_front_matter("t: 'Read' # only").word_field("t").as_deref(), Some("read"));
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
            assert_eq!(parse_front_matter(lines).list_field("t").unwrap(), list, "{lines:?}");
        }
        for wrong in ["t: []", "t: [Read", "t: Bash(x", "t: Bash)", "t: 'Read", "t: \"\"", "t: a\u{1}b"] {
            assert!(parse_front_matter(wrong).list_field("t").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_text_without_a_description_has_its_first_line() {
        assert_eq!(first_heading("\n## Review\n\nwords").as_deref(), Some("Review"));
        assert_eq!(first_heading("#\n \n"), None);
    }
}
