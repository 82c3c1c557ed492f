//! Parses `git status --porcelain=v2 --branch -z`.

use grove_model::CommitSha;

use super::text_excerpt;
use crate::GitError;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts {
    pub staged: usize,
    pub unstaged: usize,
    pub conflicts: usize,
    /// Submodules whose commit or files differ from the checked-out commit.
    pub submodules: usize,
    pub untracked: usize,
    pub ignored: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeStatus {
    /// Missing while the branch is unborn.
    pub head: Option<CommitSha>,
    /// Missing when HEAD is detached.
    pub branch: Option<String>,
    pub upstream: Option<String>,
    /// Ahead of and behind the upstream.
    pub ahead_behind: Option<(u64, u64)>,
    pub counts: StatusCounts,
}

impl WorktreeStatus {
    /// Tells whether tracked files have changes, staged or not.
    pub fn is_changed(&self) -> bool {
        self.counts.staged + self.counts.unstaged + self.counts.conflicts + self.counts.submodules > 0
    }

    pub fn is_clean(&self) -> bool {
        !self.is_changed() && self.counts.untracked == 0
    }
}

pub fn parse_status(output: &[u8]) -> Result<WorktreeStatus, GitError> {
    let mut status = WorktreeStatus {
        head: None,
        branch: None,
        upstream: None,
        ahead_behind: None,
        counts: StatusCounts::default(),
    };
    if output.last().is_some_and(|byte| *byte != 0) {
        return Err(unreadable_field(output));
    }
    let (mut saw_oid, mut saw_head) = (false, false);
    let mut fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    while let Some(field) = fields.next() {
        match (field[0], field.get(1)) {
            (b'#', Some(b' ')) => {
                let line = std::str::from_utf8(&field[2..]).map_err(|_| unreadable_field(field))?;
                match line.split_once(' ') {
                    Some(("branch.oid", "(initial)")) => saw_oid = true,
                    Some(("branch.oid", id)) => {
                        status.head = Some(id.parse().map_err(|_| unreadable_field(field))?);
                        saw_oid = true;
                    }
                    Some(("branch.head", "(detached)")) => saw_head = true,
                    Some(("branch.head", name)) => {
                        status.branch = Some(name.to_owned());
                        saw_head = true;
                    }
                    Some(("branch.upstream", name)) => status.upstream = Some(name.to_owned()),
                    Some(("branch.ab", counts)) => {
                        status.ahead_behind = Some(ahead_behind(counts).ok_or_else(|| unreadable_field(field))?)
                    }
                    // `# stash N`, and headers that newer gits may add.
                    _ => {}
                }
            }
            (b'1' | b'2', Some(b' ')) => {
                let &[staged, unstaged] = field.get(2..4).ok_or_else(|| unreadable_field(field))? else {
                    return Err(unreadable_field(field));
                };
                let submodule = field.get(5) == Some(&b'S');
                status.counts.staged += usize::from(staged != b'.');
                status.counts.unstaged += usize::from(unstaged != b'.' && !submodule);
                status.counts.submodules += usize::from(unstaged != b'.' && submodule);
                if field[0] == b'2' {
                    // A rename is followed by the path that it came from.
                    fields.next().ok_or_else(|| unreadable_field(field))?;
                }
            }
            (b'u', Some(b' ')) => status.counts.conflicts += 1,
            (b'?', Some(b' ')) => status.counts.untracked += 1,
            (b'!', Some(b' ')) => status.counts.ignored += 1,
            _ => return Err(unreadable_field(field)),
        }
    }
    if !(saw_oid && saw_head) {
        return Err(GitError::unreadable_output("status", "it names no branch"));
    }
    Ok(status)
}

fn ahead_behind(counts: &str) -> Option<(u64, u64)> {
    let (ahead, behind) = counts.split_once(' ')?;
    Some((ahead.strip_prefix('+')?.parse().ok()?, behind.strip_prefix('-')?.parse().ok()?))
}

fn unreadable_field(field: &[u8]) -> GitError {
    GitError::unreadable_output("status", text_excerpt(field))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEST_OBJECT_ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn branch_headers() -> String {
        format!(
            "# branch.oid {TEST_OBJECT_ID}\0# branch.head issue-42\0# branch.upstream origin/issue-42\0# branch.ab +2 -1\0"
        )
    }

    #[test]
    fn every_kind_of_line_is_counted() {
        let text = format!(
            "{}1 M. N... 100644 100644 100644 {TEST_OBJECT_ID} {TEST_OBJECT_ID} staged\0\
             1 .M N... 100644 100644 100644 {TEST_OBJECT_ID} {TEST_OBJECT_ID} un staged\n\0\
             1 .M SC.. 160000 160000 160000 {TEST_OBJECT_ID} {TEST_OBJECT_ID} module\0\
             2 R. N... 100644 100644 100644 {TEST_OBJECT_ID} {TEST_OBJECT_ID} R100 new\0? old\0\
             u UU N... 100644 100644 100644 100644 {TEST_OBJECT_ID} {TEST_OBJECT_ID} {TEST_OBJECT_ID} both\0? new file\0! target/\0",
            branch_headers()
        );
        let read = parse_status(text.as_bytes()).unwrap();
        assert_eq!(
            read.counts,
            StatusCounts { staged: 2, unstaged: 1, conflicts: 1, submodules: 1, untracked: 1, ignored: 1 }
        );
        assert_eq!(read.branch.as_deref(), Some("issue-42"));
        assert_eq!(read.ahead_behind, Some((2, 1)));
        assert!(read.is_changed() && !read.is_clean());
    }

    #[test]
    fn nothing_is_not_an_answer() {
        assert!(parse_status(b"").is_err());
        assert!(parse_status(b"# branch.head x\0").is_err());
        assert!(parse_status(b"garbage\0").is_err());
    }

    proptest! {
        #[test]
        fn untracked_files_are_counted_whatever_they_are_called(names in proptest::collection::vec("[^\0]{1,20}", 0..10)) {
            let mut text = branch_headers();
            for name in &names {
                text.push_str(&format!("? {name}\0"));
            }
            prop_assert_eq!(parse_status(text.as_bytes()).unwrap().counts.untracked, names.len());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = parse_status(&bytes);
        }

        #[test]
        fn a_cut_off_answer_never_adds_changes(cut in 0usize..400) {
            let text = format!("{}1 .M N... 100644 100644 100644 {TEST_OBJECT_ID} {TEST_OBJECT_ID} a b\0? c\0", branch_headers());
            let cut = cut.min(text.len());
            if let Ok(read) = parse_status(&text.as_bytes()[..cut]) {
                prop_assert!(read.counts.unstaged <= 1 && read.counts.untracked <= 1);
                prop_assert_eq!(read.branch.as_deref(), Some("issue-42"));
            }
        }
    }
}
