//! `git for-each-ref` with [`REF_FORMAT`]

use grove_model::CommitSha;

use super::shown;
use crate::GitError;

/// NUL between fields and a newline behind; no ref name or symref target can hold either.
/// `%(*…)` is the commit behind an annotated tag, and empty for anything else.
pub const REF_FORMAT: &str =
    "%(refname)%00%(objectname)%00%(*objectname)%00%(symref)%00%(committerdate:unix)%(*committerdate:unix)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefLine {
    pub name: String,
    /// The commit, peeled.
    pub at: CommitSha,
    /// What a symbolic ref points to.
    pub symref: Option<String>,
    /// When the commit was made; missing for what is not a commit.
    pub committed: Option<i64>,
}

pub fn refs(output: &[u8]) -> Result<Vec<RefLine>, GitError> {
    if output.last().is_some_and(|byte| *byte != b'\n') {
        return Err(unreadable(output));
    }
    output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(line).collect()
}

fn line(line: &[u8]) -> Result<RefLine, GitError> {
    let text = std::str::from_utf8(line).map_err(|_| unreadable(line))?;
    let fields: Vec<&str> = text.split('\0').collect();
    let [name, id, peeled, symref, committed] = fields[..] else { return Err(unreadable(line)) };
    if name.is_empty() {
        return Err(unreadable(line));
    }
    let at = if peeled.is_empty() { id } else { peeled };
    Ok(RefLine {
        name: name.to_owned(),
        at: at.parse().map_err(|_| unreadable(line))?,
        symref: (!symref.is_empty()).then(|| symref.to_owned()),
        committed: committed.parse().ok(),
    })
}

fn unreadable(line: &[u8]) -> GitError {
    GitError::unreadable("for-each-ref", shown(line))
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
            prop_assert_eq!(refs(text.as_bytes()).unwrap(), all);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = refs(&bytes);
        }
    }

    #[test]
    fn a_tag_is_peeled_to_its_commit() {
        let (tag, commit) = ("a".repeat(40), "b".repeat(40));
        let read = refs(format!("refs/tags/v1\0{tag}\0{commit}\0\0\n").as_bytes()).unwrap();
        assert_eq!(read[0].at.as_str(), commit);
        assert!(refs(b"refs/heads/x").is_err(), "cut off");
    }
}
