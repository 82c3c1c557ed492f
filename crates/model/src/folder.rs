//! Folder names made from branches: one sanitiser, used everywhere.
//!
//! A [`FolderName`] is always exactly one path component: never empty, never `.` or `..`, never absolute, at
//! most 200 bytes, and never a name that Windows reserves.

use std::fmt;

use crate::{BranchName, short_hash};

const MAX_FOLDER_BYTES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderName(String);

impl FolderName {
    /// Returns the plain folder of a text. Different texts may share it; see
    /// [`FolderName::distinct_for_branch`].
    pub fn from_text(text: &str) -> Self {
        Self(avoid_reserved_name(clean_characters(text, MAX_FOLDER_BYTES)))
    }

    /// Returns the folder for `branch` among those that other branches have `taken`: the plain one if it is
    /// free, otherwise the plain one followed by a hash of the branch, with as many digits as needed.
    pub fn distinct_for_branch(branch: &BranchName, taken: impl Fn(&FolderName) -> bool) -> Self {
        let plain = Self::from_text(branch.as_str());
        if !taken(&plain) {
            return plain;
        }
        // 8 digits are enough in practice; more digits guarantee that the name is free.
        let mut digits = 8;
        loop {
            let candidate = Self::with_hash(branch.as_str(), branch.as_str().as_bytes(), digits);
            if digits >= 64 || !taken(&candidate) {
                return candidate;
            }
            digits += 8;
        }
    }

    /// Returns `<text>-<hash of what>`, within the limit.
    pub fn with_hash(text: &str, what: &[u8], digits: usize) -> Self {
        let hash = short_hash(what, digits);
        let stem = clean_characters(text, MAX_FOLDER_BYTES - 1 - hash.len());
        Self(avoid_reserved_name(if stem.is_empty() { hash } else { format!("{stem}-{hash}") }))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Replaces characters, collapses runs, trims both ends, and cuts at `max` bytes.
fn clean_characters(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_space = false;
    for c in text.chars() {
        let space = c.is_whitespace();
        let c = match c {
            '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '#' => '-',
            _ if space => '_',
            // A control character (NUL among them) cannot be in a path on every system.
            c if c.is_control() => '-',
            c => c,
        };
        if !(c == '-' && out.ends_with('-') || space && after_space) {
            out.push(c);
        }
        after_space = space;
    }
    let trimmed = out.trim_matches(['.', '-']);
    let mut end = trimmed.len().min(max);
    while !trimmed.is_char_boundary(end) {
        end -= 1;
    }
    trimmed[..end].trim_end_matches(['.', '-']).to_owned()
}

/// Puts `_` in front of a name that Windows reserves, and returns `_branch` for an empty name.
fn avoid_reserved_name(name: String) -> String {
    if name.is_empty() {
        return "_branch".to_owned();
    }
    let stem = name.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|n| n.len() == 1 && matches!(n.as_bytes()[0], b'1'..=b'9'))
    };
    let reserved = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT");
    if !reserved {
        return name;
    }
    let mut guarded = format!("_{name}");
    if guarded.len() > MAX_FOLDER_BYTES {
        let mut end = MAX_FOLDER_BYTES;
        while !guarded.is_char_boundary(end) {
            end -= 1;
        }
        guarded.truncate(end);
    }
    guarded.trim_end_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_hold() {
        for (text, folder) in [
            ("feature/auth-login", "feature-auth-login"),
            ("fix: bug #123", "fix-_bug_-123"),
            ("user/john/task", "user-john-task"),
            ("CON", "_CON"),
            ("con.txt", "_con.txt"),
            ("Lpt9", "_Lpt9"),
            ("COM0", "COM0"),
            ("console", "console"),
            ("...test", "test"),
            ("-.-x.-.", "x"),
            ("a \t b", "a_b"),
            ("a__b", "a__b"),
            ("a//b", "a-b"),
            ("", "_branch"),
            ("///", "_branch"),
            ("..", "_branch"),
        ] {
            assert_eq!(FolderName::from_text(text).as_str(), folder, "{text:?}");
        }
    }

    #[test]
    fn the_cut_leaves_no_dash_and_no_half_character() {
        let dashed = format!("{}-{}", "a".repeat(199), "b".repeat(50));
        assert_eq!(FolderName::from_text(&dashed).as_str(), "a".repeat(199));
        let wide = "日".repeat(90);
        assert_eq!(FolderName::from_text(&wide).as_str(), "日".repeat(66));
    }

    #[test]
    fn the_second_of_two_branches_with_one_folder_gets_a_hash() {
        let first = FolderName::distinct_for_branch(&BranchName::parse("feature/x").unwrap(), |_| false);
        let second = FolderName::distinct_for_branch(&BranchName::parse("feature-x").unwrap(), |f| *f == first);
        assert_eq!(first.as_str(), "feature-x");
        assert_eq!(second.as_str(), format!("feature-x-{}", short_hash(b"feature-x", 8)));
    }

    /// Checks the guarantees of every folder name, whatever text it was made from.
    fn is_one_safe_component(folder: &FolderName) -> Result<(), TestCaseError> {
        let name = folder.as_str();
        prop_assert!(!name.is_empty() && name.len() <= 200, "{name:?}");
        prop_assert!(!name.contains(['/', '\\', ':', '*', '?', '"', '<', '>', '|', '#', '\0']), "{name:?}");
        prop_assert!(!name.chars().any(|c| c.is_whitespace() || c.is_control()), "{name:?}");
        prop_assert!(!name.starts_with(['.', '-']) && !name.ends_with(['.', '-']), "{name:?}");
        prop_assert!(!name.contains("--"), "{name:?}");
        let parts: Vec<_> = Path::new(name).components().collect();
        prop_assert_eq!(parts, vec![Component::Normal(name.as_ref())]);
        Ok(())
    }

    /// Generates texts that are likely to collide: few letters, many separators.
    fn colliding_text_strategy() -> impl Strategy<Value = String> {
        prop_oneof![
            proptest::string::string_regex("[ab/.:# _-]{0,12}").unwrap(),
            proptest::string::string_regex("(CON|nul|com1|Lpt9)(\\.[a-z]{0,3})?").unwrap(),
            proptest::string::string_regex("[a/-]{190,260}").unwrap(),
            any::<String>(),
        ]
    }

    proptest! {
        #[test]
        fn any_text_gives_one_safe_component(text in colliding_text_strategy()) {
            is_one_safe_component(&FolderName::from_text(&text))?;
            is_one_safe_component(&FolderName::with_hash(&text, text.as_bytes(), 8))?;
        }

        #[test]
        fn sanitising_twice_changes_nothing(text in colliding_text_strategy()) {
            let once = FolderName::from_text(&text);
            prop_assert_eq!(&FolderName::from_text(once.as_str()), &once);
        }

        #[test]
        fn branches_of_one_codebase_never_share_a_folder(
            names in proptest::collection::btree_set(colliding_text_strategy(), 1..40)
        ) {
            let mut owners: BTreeMap<FolderName, BranchName> = BTreeMap::new();
            for branch in names.iter().filter_map(|name| BranchName::parse(name).ok()) {
                let folder = FolderName::distinct_for_branch(&branch, |f| owners.contains_key(f));
                is_one_safe_component(&folder)?;
                prop_assert!(!owners.contains_key(&folder), "{folder} given twice");
                owners.insert(folder, branch);
            }
        }
    }
}
