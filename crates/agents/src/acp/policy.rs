//! What an agent that asks for leave may do.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, SelectedPermissionOutcome, ToolKind,
};
use grove_environments::settings::Permissions;

use crate::acp::calls::Call;
use crate::agent::Tools;

/// Whether a tool may be used.
///
/// Whoever may edit may also run commands, since without them nothing can be tested or committed, and
/// what a command does cannot be told from its words. Files are changed in the worktree only; whatever
/// has a kind that we do not know is refused.
pub fn allows(permissions: Permissions, tools: &Tools, cwd: &Path, call: &Call) -> bool {
    if rules(&tools.disallowed, call).any(|rule| rule.may_cover(call)) {
        return false;
    }
    if !tools.allowed.is_empty() && !rules(&tools.allowed, call).any(|rule| rule.covers(call)) {
        return false;
    }
    let here = || call.paths.iter().all(|path| is_beneath(cwd, path));
    match (if tools.read_only { Permissions::Read } else { permissions }, call.kind) {
        (Permissions::Full, _) => true,
        (_, ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch) => true,
        (Permissions::Read, _) => false,
        (Permissions::Edit, ToolKind::Execute) => true,
        (Permissions::Edit, ToolKind::Edit) => here(),
        (Permissions::Edit, ToolKind::Delete | ToolKind::Move) => !call.paths.is_empty() && here(),
        (Permissions::Edit, _) => false,
    }
}

/// The answer among those that were offered, and whether it is a yes. A yes is never for longer than
/// this once: the next one is asked for with other things in mind.
pub fn outcome(allowed: bool, options: &[PermissionOption]) -> (RequestPermissionOutcome, bool) {
    use PermissionOptionKind::{AllowOnce, RejectAlways, RejectOnce};
    let fitting: &[PermissionOptionKind] = if allowed { &[AllowOnce] } else { &[RejectOnce, RejectAlways] };
    let found = fitting.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    match found {
        Some(option) => {
            let selected = SelectedPermissionOutcome::new(option.option_id.clone());
            (RequestPermissionOutcome::Selected(selected), allowed)
        }
        None => (RequestPermissionOutcome::Cancelled, false),
    }
}

/// Those that are about a tool.
fn rules<'a>(rules: &'a [String], call: &'a Call) -> impl Iterator<Item = Rule<'a>> {
    rules.iter().map(|rule| Rule::of(rule)).filter(|rule| rule.is_about(call))
}

/// A tool by its name, as in `Edit`, perhaps only with some commands, as in `Bash(git log:*)`.
pub struct Rule<'a> {
    pub tool: &'a str,
    pub command: Option<&'a str>,
}

impl<'a> Rule<'a> {
    pub fn of(text: &'a str) -> Self {
        match text.split_once('(') {
            Some((tool, command)) => {
                let command = command.trim_end().trim_end_matches(')').trim_end_matches('*').trim_end_matches(':');
                Self { tool: tool.trim(), command: Some(command.trim()).filter(|command| !command.is_empty()) }
            }
            None => Self { tool: text.trim(), command: None },
        }
    }

    fn is_about(&self, call: &Call) -> bool {
        self.tool.eq_ignore_ascii_case(&call.name) || kind_of(self.tool) == Some(call.kind)
    }

    /// One that was allowed for a command is not allowed for what stands behind that.
    fn covers(&self, call: &Call) -> bool {
        let Some(command) = self.command else { return true };
        let rest = call.command.as_deref().and_then(|of| of.trim_start().strip_prefix(command));
        rest.is_some_and(|rest| {
            (rest.is_empty() || rest.starts_with(char::is_whitespace))
                && !rest.contains(['\n', ';', '&', '|', '`', '$', '<', '>'])
        })
    }

    /// Also in the middle of a command, and where nobody knows it.
    fn may_cover(&self, call: &Call) -> bool {
        self.command.is_none_or(|command| call.command.as_deref().is_none_or(|of| of.contains(command)))
    }
}

/// Tools by the names that people know; agents have their own for the same.
fn kind_of(tool: &str) -> Option<ToolKind> {
    Some(match tool.to_ascii_lowercase().as_str() {
        "bash" | "shell" | "execute" => ToolKind::Execute,
        "edit" | "write" | "multiedit" | "notebookedit" => ToolKind::Edit,
        "read" => ToolKind::Read,
        "glob" | "grep" | "search" => ToolKind::Search,
        "webfetch" | "websearch" | "fetch" => ToolKind::Fetch,
        "delete" => ToolKind::Delete,
        "move" => ToolKind::Move,
        _ => return None,
    })
}

/// Whether a path, as it is written, is in a directory.
fn is_beneath(directory: &Path, path: &Path) -> bool {
    let mut whole = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::ParentDir => _ = whole.pop(),
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole != directory && whole.starts_with(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: ToolKind, paths: &[&str], command: Option<&str>) -> Call {
        let mut call = Call::new("id".into());
        call.kind = kind;
        call.name = "tool".to_owned();
        call.paths = paths.iter().map(PathBuf::from).collect();
        call.command = command.map(str::to_owned);
        call
    }

    fn allowed(permissions: Permissions, kind: ToolKind, paths: &[&str]) -> bool {
        allows(permissions, &Tools::default(), Path::new("/w/tree"), &call(kind, paths, None))
    }

    #[test]
    fn an_editor_works_in_its_worktree_and_a_reader_changes_nothing() {
        use Permissions::{Edit, Full, Read};
        for (kind, paths, by_read, by_edit) in [
            (ToolKind::Read, &["/etc/passwd"][..], true, true),
            (ToolKind::Search, &[], true, true),
            (ToolKind::Fetch, &[], true, true),
            (ToolKind::Execute, &[], false, true),
            (ToolKind::Edit, &[], false, true),
            (ToolKind::Edit, &["/w/tree/a", "b/c"], false, true),
            (ToolKind::Edit, &["/w/tree/a", "/w/tree/../other/b"], false, false),
            (ToolKind::Edit, &["/w/treehouse"], false, false),
            (ToolKind::Delete, &["a"], false, true),
            (ToolKind::Delete, &[], false, false),
            (ToolKind::Delete, &["."], false, false),
            (ToolKind::Move, &["a", "/tmp/b"], false, false),
            (ToolKind::SwitchMode, &[], false, false),
            (ToolKind::Other, &["a"], false, false),
        ] {
            assert_eq!(allowed(Read, kind, paths), by_read, "{kind:?} {paths:?}");
            assert_eq!(allowed(Edit, kind, paths), by_edit, "{kind:?} {paths:?}");
            assert!(allowed(Full, kind, paths), "{kind:?} {paths:?}");
        }
    }

    #[test]
    fn tools_are_known_by_their_names_and_kinds() {
        let with = |allowed: &[&str], disallowed: &[&str], command: Option<&str>| {
            let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let tools = Tools { allowed: list(allowed), disallowed: list(disallowed), read_only: false };
            allows(Permissions::Full, &tools, Path::new("/w"), &call(ToolKind::Execute, &[], command))
        };
        assert!(with(&[], &["Edit"], None));
        assert!(!with(&[], &["Bash"], None) && !with(&[], &["Tool"], None));
        assert!(!with(&[], &["Bash(git push:*)"], Some("git push origin")));
        assert!(with(&[], &["Bash(git push:*)"], Some("git status")));
        assert!(!with(&[], &["Bash(git push:*)"], Some("cd x && git push")));
        assert!(!with(&[], &["Bash(git push:*)"], None), "it could be that");
        assert!(!with(&["Read"], &[], None) && with(&["Read", "Bash"], &[], None));
        assert!(with(&["Bash(git log:*)"], &[], Some("git log -1")));
        assert!(!with(&["Bash(git log:*)"], &[], Some("git log; rm x")));
        assert!(!with(&["Bash(git log:*)"], &[], Some("rm x")) && !with(&["Bash(git log:*)"], &[], None));
    }

    #[test]
    fn a_yes_is_for_once_and_needs_an_option() {
        let option = |kind: PermissionOptionKind| PermissionOption::new(format!("{kind:?}"), "x", kind);
        let all = [
            PermissionOptionKind::AllowAlways,
            PermissionOptionKind::AllowOnce,
            PermissionOptionKind::RejectAlways,
            PermissionOptionKind::RejectOnce,
        ]
        .map(option);
        let chosen = |allowed: bool, options: &[PermissionOption]| match outcome(allowed, options) {
            (RequestPermissionOutcome::Selected(selected), given) => format!("{} {given}", selected.option_id),
            (_, given) => format!("cancelled {given}"),
        };
        assert_eq!(chosen(true, &all), "AllowOnce true");
        assert_eq!(chosen(false, &all), "RejectOnce false");
        assert_eq!(chosen(false, &all[2..3]), "RejectAlways false");
        assert_eq!(chosen(true, &all[..1]), "cancelled false");
        assert_eq!(chosen(false, &all[..2]), "cancelled false");
    }
}
