//! Decides on the permission requests of an agent.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, SelectedPermissionOutcome, ToolKind,
};
use grove_environments::settings::AgentPermissions;

use crate::acp::calls::TrackedToolCall;
use crate::agent::ToolPolicy;

/// Tells whether the agent may use a tool.
///
/// An agent that may edit may also run commands: without them it can neither test nor commit, and the text
/// of a command does not tell what the command does. Files may change only in the worktree; calls of an
/// unknown kind are refused.
pub fn is_call_allowed(permissions: AgentPermissions, tools: &ToolPolicy, cwd: &Path, call: &TrackedToolCall) -> bool {
    if matching_rules(&tools.disallowed, call).any(|rule| rule.may_cover(call)) {
        return false;
    }
    if !tools.allowed.is_empty() && !matching_rules(&tools.allowed, call).any(|rule| rule.covers_call(call)) {
        return false;
    }
    let here = || call.paths.iter().all(|path| is_beneath(cwd, path));
    match (if tools.read_only { AgentPermissions::Read } else { permissions }, call.kind) {
        (AgentPermissions::Full, _) => true,
        (_, ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch) => true,
        (AgentPermissions::Read, _) => false,
        (AgentPermissions::Edit, ToolKind::Execute) => true,
        (AgentPermissions::Edit, ToolKind::Edit) => here(),
        (AgentPermissions::Edit, ToolKind::Delete | ToolKind::Move) => !call.paths.is_empty() && here(),
        (AgentPermissions::Edit, _) => false,
    }
}

/// Returns the offered option that fits the decision, and whether it allows the call. It allows only this
/// one call, never later ones: their circumstances may differ.
pub fn permission_outcome(allowed: bool, options: &[PermissionOption]) -> (RequestPermissionOutcome, bool) {
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

/// Returns the rules that are about the tool of a call.
fn matching_rules<'a>(rules: &'a [String], call: &'a TrackedToolCall) -> impl Iterator<Item = ToolRule<'a>> {
    rules.iter().map(|rule| ToolRule::parse_rule(rule)).filter(|rule| rule.is_about(call))
}

/// A tool by its name, as in `Edit`, optionally limited to some commands, as in `Bash(git log:*)`.
pub struct ToolRule<'a> {
    pub tool: &'a str,
    pub command: Option<&'a str>,
}

impl<'a> ToolRule<'a> {
    pub fn parse_rule(text: &'a str) -> Self {
        match text.split_once('(') {
            Some((tool, command)) => {
                let command = command.trim_end().trim_end_matches(')').trim_end_matches('*').trim_end_matches(':');
                Self { tool: tool.trim(), command: Some(command.trim()).filter(|command| !command.is_empty()) }
            }
            None => Self { tool: text.trim(), command: None },
        }
    }

    fn is_about(&self, call: &TrackedToolCall) -> bool {
        self.tool.eq_ignore_ascii_case(&call.name) || kind_of(self.tool) == Some(call.kind)
    }

    /// Tells whether the rule surely covers the call. A rule for one command does not allow another command
    /// that is chained after it.
    fn covers_call(&self, call: &TrackedToolCall) -> bool {
        let Some(command) = self.command else { return true };
        let rest = call.command.as_deref().and_then(|of| of.trim_start().strip_prefix(command));
        rest.is_some_and(|rest| {
            (rest.is_empty() || rest.starts_with(char::is_whitespace))
                && !rest.contains(['\n', ';', '&', '|', '`', '$', '<', '>'])
        })
    }

    /// Tells whether the rule could cover the call: its command may be in the middle of the call's command,
    /// or the command of the call may be unknown.
    fn may_cover(&self, call: &TrackedToolCall) -> bool {
        self.command.is_none_or(|command| call.command.as_deref().is_none_or(|of| of.contains(command)))
    }
}

/// Returns the kind of a tool by the name that people know; agents use their own names.
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

/// Tells whether a path, as it is written, is in a directory.
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

    fn make_test_call(kind: ToolKind, paths: &[&str], command: Option<&str>) -> TrackedToolCall {
        let mut call = TrackedToolCall::new("id".into());
        call.kind = kind;
        call.name = "tool".to_owned();
        call.paths = paths.iter().map(PathBuf::from).collect();
        call.command = command.map(str::to_owned);
        call
    }

    fn is_kind_allowed(permissions: AgentPermissions, kind: ToolKind, paths: &[&str]) -> bool {
        is_call_allowed(permissions, &ToolPolicy::default(), Path::new("/w/tree"), &make_test_call(kind, paths, None))
    }

    #[test]
    fn an_editor_works_in_its_worktree_and_a_reader_changes_nothing() {
        use AgentPermissions::{Edit, Full, Read};
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
            assert_eq!(is_kind_allowed(Read, kind, paths), by_read, "{kind:?} {paths:?}");
            assert_eq!(is_kind_allowed(Edit, kind, paths), by_edit, "{kind:?} {paths:?}");
            assert!(is_kind_allowed(Full, kind, paths), "{kind:?} {paths:?}");
        }
    }

    #[test]
    fn tools_are_known_by_their_names_and_kinds() {
        let with = |allowed: &[&str], disallowed: &[&str], command: Option<&str>| {
            let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let tools = ToolPolicy { allowed: list(allowed), disallowed: list(disallowed), read_only: false };
            is_call_allowed(
                AgentPermissions::Full,
                &tools,
                Path::new("/w"),
                &make_test_call(ToolKind::Execute, &[], command),
            )
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
        let chosen = |allowed: bool, options: &[PermissionOption]| match permission_outcome(allowed, options) {
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
