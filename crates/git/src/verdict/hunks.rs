//! Parses the hunks that patches change, as `git diff-tree` prints them.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::GitError;
use crate::command::GitInvocation;

/// One place of a file: the removed and the added lines. If a file has no lines, or its mode changes, git's
/// description of it takes their place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hunk {
    /// The file, as git's header names it.
    file: Vec<u8>,
    removed: Vec<u8>,
    added: Vec<u8>,
}

impl Hunk {
    fn line_count(&self) -> usize {
        split_lines(&self.removed).count() + split_lines(&self.added).count()
    }

    fn reversed_hunk(&self) -> Self {
        Self { file: self.file.clone(), removed: self.added.clone(), added: self.removed.clone() }
    }

    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

/// The changes of a patch to one file.
#[derive(Debug, Default)]
pub(super) struct FilePatch {
    file: Vec<u8>,
    is_new: bool,
    hunks: Vec<Hunk>,
    /// The lines of the file before the patch, as far as they were printed.
    before: HashSet<Vec<u8>>,
    /// Old and new object, for files without lines.
    objects: Hunk,
}

impl FilePatch {
    fn iter_hunks(&self) -> impl Iterator<Item = &Hunk> {
        self.hunks.iter()
    }

    fn finish_patch(mut self) -> Self {
        if self.hunks.is_empty() && !self.objects.is_empty() {
            self.hunks.push(Hunk { file: self.file.clone(), ..std::mem::take(&mut self.objects) });
        }
        self
    }
}

/// The hunks of a whole branch, to compare other patches with.
pub(super) struct OwnHunks<'a> {
    /// The number of times that each hunk occurs.
    hunks: HashMap<&'a Hunk, usize>,
    /// The number of lines that they remove and add.
    lines: usize,
}

impl<'a> OwnHunks<'a> {
    pub fn new(patch: &'a [FilePatch]) -> Self {
        let mut hunks = HashMap::new();
        for hunk in patch.iter().flat_map(FilePatch::iter_hunks) {
            *hunks.entry(hunk).or_default() += 1;
        }
        let lines = hunks.iter().map(|(hunk, count)| hunk.line_count() * count).sum();
        Self { hunks, lines }
    }

    /// Tells whether a patch reverts most of it: it has the reverse, and the lines that it removes do not
    /// reappear in another place, as moved lines do.
    pub fn are_reversed_by(&self, patch: &[FilePatch]) -> bool {
        let all = || patch.iter().flat_map(FilePatch::iter_hunks);
        let reversed: Vec<Hunk> = all().map(Hunk::reversed_hunk).filter(|hunk| self.hunks.contains_key(hunk)).collect();
        if reversed.is_empty() {
            return false;
        }
        let brought: HashSet<&[u8]> = all().flat_map(|hunk| split_lines(&hunk.added)).collect();
        let gone = reversed.iter().filter(|hunk| is_mostly_missing(&hunk.added, |line| brought.contains(line)));
        self.share_of(gone) * 2 >= self.lines
    }

    /// Tells whether a merge, as a patch to the base with its whole files, would bring back at least a tenth
    /// of it, not only single lines. Later work removes single lines, an import for instance, of many merged
    /// branches; a file that the base does not have was deleted or moved, and its deletion is found
    /// separately.
    pub fn come_back_by(&self, merge: &[FilePatch]) -> bool {
        let back = merge.iter().filter(|file| !file.is_new).flat_map(|file| {
            file.iter_hunks().filter(|hunk| is_mostly_missing(&hunk.added, |line| file.before.contains(line)))
        });
        let back = self.share_of(back);
        back > 0 && back * 10 >= self.lines
    }

    /// Counts its lines that are in these hunks.
    fn share_of<'b>(&self, hunks: impl Iterator<Item = &'b Hunk>) -> usize {
        let mut left = self.hunks.clone();
        let mut counted = 0;
        for hunk in hunks {
            if let Some(count) = left.get_mut(hunk).filter(|count| **count > 0) {
                *count -= 1;
                counted += hunk.line_count();
            }
        }
        counted
    }
}

/// Tells whether more than a quarter of the lines is missing, blank ones aside. Lines that exist were moved,
/// and a few that are missing were changed since. A text without any line counts as missing, since no line of
/// it can be found.
fn is_mostly_missing(text: &[u8], is_there: impl Fn(&[u8]) -> bool) -> bool {
    let all: Vec<&[u8]> = split_lines(text).filter(|line| !line.trim_ascii().is_empty()).collect();
    let there = all.iter().filter(|line| is_there(line)).count();
    all.is_empty() || there * 4 < all.len() * 3
}

fn split_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

/// Returns the patches of commits, or between two trees, with this many lines of context, by the request.
pub(super) async fn read_patches(
    diff_tree: GitInvocation<'_>,
    wanted: &BTreeSet<String>,
    context: u32,
) -> Result<HashMap<String, Vec<FilePatch>>, GitError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let output = self::diff_tree(diff_tree, wanted, context).await?;
    parse_patches(&output, wanted).ok_or_else(|| GitError::unreadable_output("diff-tree", "a patch that ends early"))
}

/// Returns the output of `git diff-tree`: each patch follows a line with its request.
pub(super) async fn diff_tree(
    diff_tree: GitInvocation<'_>,
    wanted: &BTreeSet<String>,
    context: u32,
) -> Result<Vec<u8>, GitError> {
    let asked: String = wanted.iter().map(|what| format!("{what}\n")).collect();
    let flags = ["--stdin", "-p", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"];
    let printed = diff_tree.args(flags).args([format!("--unified={context}"), "--inter-hunk-context=0".to_owned()]);
    Ok(printed.with_stdin(asked).with_long_timeout().run().await?.stdout)
}

fn parse_patches(output: &[u8], wanted: &BTreeSet<String>) -> Option<HashMap<String, Vec<FilePatch>>> {
    let mut found: HashMap<String, Vec<FilePatch>> = HashMap::new();
    let mut current: Option<(&String, FilePatch)> = None;
    let mut rest = split_lines(output);
    while let Some(line) = rest.next() {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let asked = std::str::from_utf8(line).ok().and_then(|line| wanted.get(line));
        if let Some(name) = asked {
            keep_patch(&mut found, current.replace((name, FilePatch::default())));
        } else if let Some(file) = line.strip_prefix(b"diff --git ") {
            let (name, ended) = current.take()?;
            keep_patch(&mut found, Some((name, ended)));
            current = Some((name, FilePatch { file: file.to_vec(), ..FilePatch::default() }));
        } else if let Some((_, patch)) = &mut current {
            if line.starts_with(b"@@ ") {
                read_hunk(line, &mut rest, patch)?;
            } else {
                read_header(line, patch);
            }
        }
    }
    keep_patch(&mut found, current);
    Some(found)
}

fn keep_patch(found: &mut HashMap<String, Vec<FilePatch>>, ended: Option<(&String, FilePatch)>) {
    let Some((name, patch)) = ended else { return };
    let of_name = found.entry(name.clone()).or_default();
    if !patch.file.is_empty() {
        of_name.push(patch.finish_patch());
    }
}

/// Reads git's description of a file before its lines.
fn read_header(line: &[u8], patch: &mut FilePatch) {
    if let Some(mode) = line.strip_prefix(b"old mode ") {
        patch.hunks.push(Hunk { file: patch.file.clone(), removed: mode.to_vec(), added: Vec::new() });
    } else if let Some(mode) = line.strip_prefix(b"new mode ") {
        if let Some(modes) = patch.hunks.last_mut() {
            modes.added = mode.to_vec();
        }
    } else if line.starts_with(b"new file mode ") {
        patch.is_new = true;
    } else if let Some(objects) = line.strip_prefix(b"index ") {
        let ids = objects.split(|byte| *byte == b' ').next().unwrap_or_default();
        if let Some(at) = ids.windows(2).position(|two| two == b"..") {
            patch.objects.removed = ids[..at].to_vec();
            patch.objects.added = ids[at + 2..].to_vec();
        }
    }
}

/// Reads as many lines as `@@ -1,2 +1,3 @@` says; changes with unchanged lines between them are
/// several hunks.
fn read_hunk<'a>(header: &[u8], rest: &mut impl Iterator<Item = &'a [u8]>, patch: &mut FilePatch) -> Option<()> {
    let mut ranges = std::str::from_utf8(header.get(3..)?.split(|byte| *byte == b'@').next()?).ok()?.split(' ');
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse::<u64>().ok());
    let (mut old, mut new) = (count(ranges.next()?.strip_prefix('-')?)?, count(ranges.next()?.strip_prefix('+')?)?);
    let mut hunk = Hunk { file: patch.file.clone(), ..Hunk::default() };
    while old > 0 || new > 0 {
        let line = rest.next()?;
        match line.first()? {
            b' ' => {
                (old, new) = (old.checked_sub(1)?, new.checked_sub(1)?);
                patch.before.insert(line[1..].to_vec());
                let ended = std::mem::replace(&mut hunk, Hunk { file: patch.file.clone(), ..Hunk::default() });
                patch.hunks.extend(Some(ended).filter(|hunk| !hunk.is_empty()));
            }
            b'-' => {
                old = old.checked_sub(1)?;
                patch.before.insert(line[1..].to_vec());
                hunk.removed.extend(&line[1..]);
            }
            b'+' => {
                new = new.checked_sub(1)?;
                hunk.added.extend(&line[1..]);
            }
            // "\ No newline at end of file" belongs to the line before it.
            b'\\' => {}
            _ => return None,
        }
    }
    patch.hunks.extend(Some(hunk).filter(|hunk| !hunk.is_empty()));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_hunk(removed: &str, added: &str) -> Hunk {
        Hunk { file: b"a/f b/f".to_vec(), removed: removed.into(), added: added.into() }
    }

    #[test]
    fn a_patch_is_read_place_by_place() {
        let wanted: BTreeSet<String> = ["c0ffee".to_owned(), "one two".to_owned(), "same same".to_owned()].into();
        let output = b"c0ffee\ndiff --git a/f b/f\nold mode 100644\nnew mode 100755\nindex 1..2\n--- a/f\n+++ b/f\n\
            @@ -1,3 +1,4 @@ fn\n a\n--- x\n+c0ffee\n+y\n b\n@@ -9 +9,0 @@\n-gone\n\\ No newline at end of file\n\
            one two\ndiff --git a/f b/f\nindex 1..2 100644\nBinary files a/f and b/f differ\n\
            diff --git a/f b/f\nnew file mode 100644\nindex 0..3\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n";
        let read = super::parse_patches(output, &wanted).unwrap();
        let hunks = |name: &str| read[name].iter().flat_map(FilePatch::iter_hunks).cloned().collect::<Vec<_>>();
        assert_eq!(
            hunks("c0ffee"),
            [make_hunk("100644", "100755"), make_hunk("-- x\n", "c0ffee\ny\n"), make_hunk("gone\n", "")]
        );
        assert_eq!(hunks("one two"), [make_hunk("1", "2"), make_hunk("", "x\n")]);
        assert!(!read["one two"][0].is_new && read["one two"][1].is_new);
        assert!(!read.contains_key("same same"));
        assert!(
            super::parse_patches(b"c0ffee\ndiff --git a/f b/f\n@@ -1,2 +1 @@\n-a\n", &wanted).is_none(),
            "half a patch"
        );
    }

    #[test]
    fn what_was_moved_or_changed_a_little_is_not_gone() {
        let is_missing = |text: &str| {
            is_mostly_missing(text.as_bytes(), |line| {
                ["one\n", "two\n", "three\n", "}\n"].map(str::as_bytes).contains(&line)
            })
        };
        assert!(!is_missing("one\ntwo\n\nthree\nfour\n"));
        assert!(is_missing("four\n"));
        assert!(is_missing("four\nfive\n}\n"));
        assert!(is_missing(""));
    }

    #[test]
    fn a_patch_that_moves_lines_takes_nothing_back() {
        let patch = |hunks: &[Hunk]| [FilePatch { hunks: hunks.to_vec(), ..FilePatch::default() }];
        let own = patch(&[make_hunk("", "one\ntwo\n"), make_hunk("", "three\n")]);
        let own = OwnHunks::new(&own);
        let elsewhere = Hunk { file: b"a/g b/g".to_vec(), ..make_hunk("", "one\ntwo\n") };
        assert!(own.are_reversed_by(&patch(&[make_hunk("one\ntwo\n", "")])));
        assert!(own.are_reversed_by(&patch(&[make_hunk("one\ntwo\n", ""), make_hunk("x", "one\n")])));
        assert!(!own.are_reversed_by(&patch(&[make_hunk("one\ntwo\n", ""), elsewhere])));
        assert!(!own.are_reversed_by(&patch(&[make_hunk("one\n", "")])));
        assert!(!own.are_reversed_by(&patch(&[make_hunk("three\n", "")])), "the lesser part");
    }

    #[test]
    fn a_tenth_that_would_come_back_is_too_much() {
        let block = |word: &str, count: usize| (0..count).map(|n| format!("{word} {n}\n")).collect::<String>();
        let patch = |hunks: &[Hunk], before: &str| {
            let before = split_lines(before.as_bytes()).map(<[u8]>::to_vec).collect();
            [FilePatch { hunks: hunks.to_vec(), before, ..FilePatch::default() }]
        };
        for (lines, back, expected) in [(9, 1, true), (20, 1, false), (200, 19, false), (200, 23, true)] {
            let own = patch(&[make_hunk("", &block("a", lines)), make_hunk("", &block("b", back))], "");
            let merge = patch(&[make_hunk("", &block("b", back))], "x\n");
            assert_eq!(OwnHunks::new(&own).come_back_by(&merge), expected, "{lines} {back}");
            let moved = patch(&[make_hunk("", &block("b", back))], &block("b", back));
            assert!(!OwnHunks::new(&own).come_back_by(&moved), "the base has it, elsewhere");
        }
    }
}
