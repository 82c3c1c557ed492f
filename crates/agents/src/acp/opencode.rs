//! Permission rules in the format of opencode. By default it asks only about paths outside of its directory,
//! so it gets the rules before it starts.

use grove_environments::settings::AgentPermissions;
use serde_json::{Map, Value, json};

use crate::acp::policy::ToolRule;
use crate::agent::ToolPolicy;

/// The variable with rules that override opencode's own settings.
pub const PERMISSION_VARIABLE: &str = "OPENCODE_PERMISSION";

/// Returns the rules for a run; `None` if opencode's own settings suffice. The last matching rule wins.
pub fn permission_rules(permissions: AgentPermissions, tools: &ToolPolicy) -> Option<String> {
    let mut rules = Map::new();
    if !tools.allowed.is_empty() {
        rules.insert("*".to_owned(), json!("deny"));
        tools.allowed.iter().for_each(|rule| allow_rule(&mut rules, &ToolRule::parse_rule(rule)));
    }
    if tools.read_only || permissions == AgentPermissions::Read {
        rules.insert("edit".to_owned(), json!("deny"));
        // The author of a command rule knows what the command does.
        rules.entry("bash").or_insert_with(|| json!("deny"));
    }
    tools.disallowed.iter().for_each(|rule| deny_rule(&mut rules, &ToolRule::parse_rule(rule)));
    (!rules.is_empty()).then(|| Value::Object(rules).to_string())
}

fn allow_rule(rules: &mut Map<String, Value>, rule: &ToolRule<'_>) {
    let tool = own_name(rule.tool);
    match rule.command {
        None => drop(rules.insert(tool, json!("allow"))),
        Some(command) if tool == "bash" => {
            let commands = rules.entry(tool).or_insert_with(|| json!({ "*": "deny" }));
            if let Value::Object(commands) = commands {
                commands.insert(format!("{command} *"), json!("allow"));
            }
        }
        // A part of the tool that no rule can name stays forbidden.
        Some(_) => {}
    }
}

fn deny_rule(rules: &mut Map<String, Value>, rule: &ToolRule<'_>) {
    let tool = own_name(rule.tool);
    let Some(command) = rule.command.filter(|_| tool == "bash") else {
        rules.insert(tool, json!("deny"));
        return;
    };
    let commands = rules.entry(tool).or_insert_with(|| json!({}));
    if let Value::String(all) = commands {
        *commands = json!({ "*": all });
    }
    commands[format!("{command} *")] = json!("deny");
}

/// Returns opencode's name for a tool that people know by another name.
fn own_name(tool: &str) -> String {
    match tool.to_ascii_lowercase().as_str() {
        "bash" | "shell" | "execute" => "bash".to_owned(),
        "edit" | "write" | "multiedit" | "notebookedit" => "edit".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission_rules_json(permissions: AgentPermissions, allowed: &[&str], disallowed: &[&str]) -> Value {
        let list = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect();
        let tools = ToolPolicy { allowed: list(allowed), disallowed: list(disallowed), read_only: false };
        permission_rules(permissions, &tools).map_or(Value::Null, |rules| serde_json::from_str(&rules).unwrap())
    }

    #[test]
    fn a_reader_changes_nothing_and_lists_of_tools_are_kept_to() {
        use AgentPermissions::{Edit, Full, Read};
        assert_eq!(permission_rules_json(Edit, &[], &[]), Value::Null);
        assert_eq!(permission_rules_json(Full, &[], &[]), Value::Null);
        assert_eq!(permission_rules_json(Read, &[], &[]), json!({ "bash": "deny", "edit": "deny" }));
        let read_only = ToolPolicy { read_only: true, ..ToolPolicy::default() };
        assert!(permission_rules(Full, &read_only).is_some());
        assert_eq!(
            permission_rules_json(
                Edit,
                &["Read", "Write", "Bash(git log:*)", "Bash(ls)", "WebFetch(domain:a.b)"],
                &["Bash(git push:*)"]
            ),
            json!({ "*": "deny", "read": "allow", "edit": "allow",
                "bash": { "*": "deny", "git log *": "allow", "ls *": "allow", "git push *": "deny" } })
        );
        assert_eq!(
            permission_rules_json(Read, &["Bash", "Edit"], &["Bash(rm:*)", "WebFetch(domain:a.b)"]),
            json!({ "*": "deny", "bash": { "*": "allow", "rm *": "deny" }, "edit": "deny", "webfetch": "deny" })
        );
        assert_eq!(permission_rules_json(Edit, &[], &["Bash(rm:*)"]), json!({ "bash": { "rm *": "deny" } }));
    }
}
