//! Finds the issues that a pull request closes, by its text.

use crate::github::repo::RepoName;
use crate::markdown::MarkdownLayers;

/// GitHub's keywords.
const CLOSING_KEYWORDS: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

/// Returns the issues of this repository that a text closes, in order: `Fixes #42`, `Closes: #42`, `Resolves
/// owner/repo#42`, `Fixes https://github.com/owner/repo/issues/42`. `web` is the web address of the
/// repository.
pub fn closed_issues(text: &str, repo: &RepoName, web: Option<&str>) -> Vec<u64> {
    let layers = MarkdownLayers::from_text(text);
    let mut found = Vec::new();
    for (at, _) in text.char_indices().filter(|(at, _)| begins_word(text, *at)) {
        let rest = &text[at..];
        let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        if !CLOSING_KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word)) {
            continue;
        }
        let behind = &rest[word.len()..];
        let blank = behind.trim_start_matches([' ', '\t']);
        let reference = blank.strip_prefix(':').map_or(blank, |rest| rest.trim_start_matches([' ', '\t']));
        if reference.len() == behind.len() {
            continue;
        }
        let Some(number) = parse_issue_reference(reference, repo, web) else { continue };
        if layers.is_prose(at) && !found.contains(&number) {
            found.push(number);
        }
    }
    found
}

fn begins_word(text: &str, at: usize) -> bool {
    text[at..].starts_with(|c: char| c.is_ascii_alphabetic())
        && !text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '#' | '@'))
}

/// Returns the number of the issue that a text begins with, if it is one of this repository.
fn parse_issue_reference(reference: &str, repo: &RepoName, web: Option<&str>) -> Option<u64> {
    if let Some(rest) = reference.strip_prefix('#') {
        return parse_number(rest);
    }
    if let Some(web) = web.filter(|web| !web.is_empty()) {
        let (start, rest) = reference.split_at_checked(web.len()).unwrap_or_default();
        if start.eq_ignore_ascii_case(web) {
            return parse_number(rest.strip_prefix("/issues/")?);
        }
    }
    let (name, rest) = reference.split_once('#')?;
    RepoName::parse(name).filter(|named| named.is_same_repo(repo))?;
    parse_number(rest)
}

fn parse_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if text[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    text[..end].parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn closed_in_text(text: &str) -> Vec<u64> {
        let repo = RepoName::parse("octo/shop").unwrap();
        closed_issues(text, &repo, Some("https://github.com/octo/shop"))
    }

    #[test]
    fn all_of_githubs_keywords_link() {
        for keyword in CLOSING_KEYWORDS {
            for text in [
                format!("{keyword} #42"),
                format!("{} #42.", keyword.to_uppercase()),
                format!("{keyword}: #42"),
                format!("{keyword} : #42"),
                format!("{keyword}:#42"),
                format!("This {keyword}   #42, I hope"),
                format!("({keyword} octo/shop#42)"),
                format!("- {keyword} Octo/Shop#42"),
                format!("**{keyword}** the thing\n\n{keyword} https://github.com/octo/shop/issues/42"),
            ] {
                assert_eq!(closed_in_text(&text), [42], "{text}");
            }
        }
        assert_eq!(closed_in_text("Fixes #1, closes #2 and resolves #1.\nFixed #3"), [1, 2, 3]);
        assert_eq!(closed_in_text("Fixes #1, #2"), [1], "each wants its own keyword");
    }

    #[test]
    fn what_is_not_said_does_not_link() {
        for text in [
            "",
            "See #42",
            "#42",
            "fixes 42",
            "fixes#42",
            "prefixes #42",
            "hotfix #42",
            "bug-fix #42",
            "fixing #42",
            "fixes other/repo#42",
            "fixes octo/shop2#42",
            "fixes octo/shop/x#42",
            "fixes #42a",
            "fixes #0",
            "fixes #99999999999999999999999",
            "fixes\n#42",
            "`fixes #42`",
            "fixes `#42`",
            "```\nfixes #42\n```",
            "<!-- fixes #42 -->",
            "fixes https://github.com/octo/other/issues/42",
            "fixes https://github.com/octo/shop/pull/42",
            "fixes https://evil.example/octo/shop/issues/42",
        ] {
            assert!(closed_in_text(text).is_empty(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(fixes|closes?|[:#/ \n`é0-9a])*") {
            let _ = closed_in_text(&text);
        }
    }
}
