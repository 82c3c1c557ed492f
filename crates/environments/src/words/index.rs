//! The text for an index that git cannot read.

/// Git's messages for a damaged index.
const INDEX_DAMAGE_MESSAGES: [&str; 8] = [
    "index file corrupt",
    "bad index file sha1 signature",
    "bad signature 0x",
    "bad index version",
    "index file smaller than expected",
    "unknown index entry format",
    "unordered stage entries",
    "broken index, expect",
];

/// Says how to repair an index, if `said` shows that git cannot read one.
pub fn index_repair(said: &str, branch: Option<&str>) -> Option<String> {
    if !INDEX_DAMAGE_MESSAGES.iter().any(|words| said.contains(words)) {
        return None;
    }
    let repair = "rm \"$(git rev-parse --git-path index)\" && git reset";
    let command = match branch {
        Some(branch) => format!("run `grove worktree exec {branch} -- sh -c '{repair}'`"),
        None => format!("run `{repair}` in that worktree"),
    };
    Some(format!(
        "Git's index there is damaged; the files are not. Save a copy of the worktree, since what was only staged goes with the index, then {command}."
    ))
}
