//! Parses `git for-each-ref` with [`REF_FORMAT`].

use grove_model::CommitSha;

use super::text_excerpt;
use crate::GitError;

/// NUL between fields and a newline at the end; no ref name or symref target can hold either.
/// `%(*…)` is the commit of an annotated tag, and empty for anything else.
pub const REF_FORMAT: &str =
    "%(refname)%00%(objectname)%00%(*objectname)%00%(symref)%00%(committerdate:unix)%(*committerdate:unix)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefLine {
    pub name: String,
    /// The commit, peeled.
    pub at: CommitSha,
    /// The target of a symbolic ref.
    pub symref: Option<String>,
    /// The time of the commit; missing if the object is not a commit.
    pub committed: Option<i64>,
}

pub fn parse_refs(output: &[u8]) -> Result<Vec<RefLine>, GitError> {
    if output.last().is_some_and(|byte| *byte != b'\n') {
        return Err(unreadable_line(output));
    }
    output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse_ref_line).collect()
}

fn parse_ref_line(line: &[u8]) -> Result<RefLine, GitError> {
    let text = std::str::from_utf8(line).map_err(|_| unreadable_line(line))?;
    let fields: Vec<&str> = text.split('\0').collect();
    let [name, id, peeled, symref, committed] = fields[..] else { return Err(unreadable_line(line)) };
    if name.is_empty() {
        return Err(unreadable_line(line));
    }
    let at = if peeled.is_empty() { id } else { peeled };
    Ok(RefLine {
        name: name.to_owned(),
        at: at.parse().map_err(|_| unreadable_line(line))?,
        symref: (!symref.is_empty()).then(|| symref.to_owned()),
        committed: committed.parse().ok(),
    })
}

fn unreadable_line(line: &[u8]) -> GitError {
    GitError::unreadable_output("for-each-ref", text_excerpt(line))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_ref() -> impl Strategy<Value = RefLine> {
        let symref = proptest::option::of("refs/[a-z/]{1,12}");
        ("refs/[a-z/ö]{1,20}", "[0-9a-f]{40}", symref, proptest::option::of(0i64..4_000_000_000))
            .prop_map(|(name, id, symref, committed)| RefLine { name, at: id.parse().unwrap(), symref, committed })
    }

    proptest! {
        #[test]
        fn what_git_prints_is_read_back(all in proptest::collection::vec(any_ref(), 0..8)) {
            let text: String = all.iter().map(|r| {
                let committed = r.committed.map_or(String::new(), |c| c.to_string());
                format!("{}\0{}\0\0{}\0{committed}\n", r.name, r.at, r.symref.clone().unwrap_or_default())
            }).collect();
            prop_assert_eq!(parse_refs(text.as_bytes()).unwrap(), all);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = parse_refs(&bytes);
        }
    }

    #[test]
    fn a_tag_is_peeled_to_its_commit() {
        let (tag, commit) = ("a".repeat(40), "b".repeat(40));
        let read = parse_refs(format!("refs/tags/v1\0{tag}\0{commit}\0\0\n").as_bytes()).unwrap();
        assert_eq!(read[0].at.as_str(), commit);
        assert!(parse_refs(b"refs/heads/x").is_err(), "cut off");
    }
}
