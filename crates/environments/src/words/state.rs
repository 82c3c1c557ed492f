//! What is to say about the files of an environment.

use crate::inspect::list::EnvironmentView;

/// Names every kind of change with its count: `2 modified, 1 untracked, merge in progress`. Empty for a clean
/// environment on its branch.
pub fn describe_changes(view: &EnvironmentView) -> String {
    let mut parts = Vec::new();
    let counted = |count: usize, word: &str| (count > 0).then(|| format!("{count} {word}"));
    parts.extend(counted(view.conflicted, if view.conflicted == 1 { "conflict" } else { "conflicts" }));
    parts.extend(view.operation.map(|operation| format!("{operation} in progress")));
    parts.extend(counted(view.staged, "staged"));
    parts.extend(counted(view.changed, "modified"));
    parts.extend(counted(view.untracked, "untracked"));
    if view.detached {
        let at = view.head_sha.as_deref().map(|sha| sha.chars().take(7).collect::<String>()).unwrap_or_default();
        parts.push(format!("detached at {at}"));
    }
    parts.join(", ")
}

/// Tells how far the checked-out branch and its upstream are apart: `origin/x +1 -2`; `None` if they are equal
/// or there is no upstream.
pub fn describe_upstream(view: &EnvironmentView) -> Option<String> {
    let upstream = view.upstream.as_deref()?;
    let apart = describe_distance(view.upstream_ahead, view.upstream_behind);
    (!apart.is_empty()).then(|| format!("{upstream}{apart}"))
}

/// ` +1 -2`: one commit ahead, two behind.
pub fn describe_distance(ahead: Option<u64>, behind: Option<u64>) -> String {
    let counted = |sign: char, count: Option<u64>| match count {
        None | Some(0) => String::new(),
        Some(count) => format!(" {sign}{count}"),
    };
    format!("{}{}", counted('+', ahead), counted('-', behind))
}
