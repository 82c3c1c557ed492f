//! What opencode may do, in rules of its own. Left to itself it asks only for what lies outside of its
//! directory, so it is told before it starts.

use grove_environments::settings::Permissions;
use serde_json::{Map, Value, json};

use crate::acp::policy::Rule;
use crate::agent::Tools;

/// Where it finds rules that stand above those of its own settings.
pub const VARIABLE: &str = "OPENCODE_PERMISSION";

/// The rules for a run; none where its own settings will do. The last one that fits counts.
pub fn rules(permissions: Permissions, tools: &Tools) -> Option<String> {
    let mut rules = Map::new();
    if !tools.allowed.is_empty() {
        rules.insert("*".to_owned(), json!("deny"));
        tools.allowed.iter().for_each(|rule| allow(&mut rules, &Rule::of(rule)));
    }
    if tools.read_only || permissions == Permissions::Read {
        rules.insert("edit".to_owned(), json!("deny"));
        // Whoever named a command knows what it does.
        rules.entry("bash").or_insert_with(|| json!("deny"));
    }
    tools.disallowed.iter().for_each(|rule| deny(&mut rules, &Rule::of(rule)));
    (!rules.is_empty()).then(|| Value::Object(rules).to_string())
}

fn allow(rules: &mut Map<String, Value>, rule: &Rule<'_>) {
    let tool = own_name(rule.tool);
    match rule.command {
        None => drop(rules.insert(tool, json!("allow"))),
        Some(command) if tool == "bash" => {
            let commands = rules.entry(tool).or_insert_with(|| json!({ "*": "deny" }));
            if let Value::Object(commands) = commands {
                commands.insert(format!("{command} *"), json!("allow"));
            }
        }
        // A part of it that we cannot name stays forbidden.
        Some(_) => {}
    }
}

fn deny(rules: &mut Map<String, Value>, rule: &Rule<'_>) {
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

/// Its name for a tool that people know by another.
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

    fn told(permissions: Permissions, allowed: &[&str], disallowed: &[&str]) -> Value {
        let list = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect();
        let tools = Tools { allowed: list(allowed), disallowed: list(disallowed), read_only: false };
        rules(permissions, &tools).map_or(Value::Null, |rules| serde_json::from_str(&rules).unwrap())
    }

    #[test]
    fn a_reader_changes_nothing_and_lists_of_tools_are_kept_to() {
        use Permissions::{Edit, Full, Read};
        assert_eq!(told(Edit, &[], &[]), Value::Null);
        assert_eq!(told(Full, &[], &[]), Value::Null);
        assert_eq!(told(Read, &[], &[]), json!({ "bash": "deny", "edit": "deny" }));
        let read_only = Tools { read_only: true, ..Tools::default() };
        assert!(rules(Full, &read_only).is_some());
        assert_eq!(
            told(
                Edit,
                &["Read", "Write", "Bash(git log:*)", "Bash(ls)", "WebFetch(domain:a.b)"],
                &["Bash(git push:*)"]
            ),
            json!({ "*": "deny", "read": "allow", "edit": "allow",
                "bash": { "*": "deny", "git log *": "allow", "ls *": "allow", "git push *": "deny" } })
        );
        assert_eq!(
            told(Read, &["Bash", "Edit"], &["Bash(rm:*)", "WebFetch(domain:a.b)"]),
            json!({ "*": "deny", "bash": { "*": "allow", "rm *": "deny" }, "edit": "deny", "webfetch": "deny" })
        );
        assert_eq!(told(Edit, &[], &["Bash(rm:*)"]), json!({ "bash": { "rm *": "deny" } }));
    }
}
