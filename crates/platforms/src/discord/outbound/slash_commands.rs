//! The slash commands of the application, made from the declaration of the text commands.

use clap::{Arg, ArgAction, Command, CommandFactory};
use grove_conversations::backoff::RETRY_BACKOFF;
use grove_conversations::commands::slash_command::SlashCommand;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::discord::api::{DiscordApiError, DiscordClient};

/// Discord's limits.
const MAX_DESCRIPTION_LENGTH: usize = 100;

const SUB_COMMAND: u64 = 1;
const TEXT_OPTION: u64 = 3;
const YES_NO_OPTION: u64 = 5;

/// Returns all commands in Discord's format.
pub fn declare_commands() -> Vec<Value> {
    SlashCommand::command().get_subcommands().map(|command| declare_command(command, None)).collect()
}

fn declare_command(command: &Command, kind: Option<u64>) -> Value {
    let subcommands = command.get_subcommands().map(|sub| declare_command(sub, Some(SUB_COMMAND)));
    // Required options come first.
    let (required, optional): (Vec<&Arg>, Vec<&Arg>) = shown_arguments(command).partition(|arg| arg.is_required_set());
    let arguments = required.into_iter().chain(optional).map(declare_argument);
    let options: Vec<Value> = subcommands.chain(arguments).collect();
    let mut declared = json!({
        "name": command.get_name(),
        "description": describe(command.get_about().map(ToString::to_string)),
        "options": options,
    });
    if let Some(kind) = kind {
        declared["type"] = json!(kind);
    }
    declared
}

/// Returns the arguments that a person can give, in their order.
fn shown_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && !matches!(arg.get_action(), ArgAction::Help))
}

fn declare_argument(arg: &Arg) -> Value {
    let mut declared = json!({
        "type": if takes_value(arg) { TEXT_OPTION } else { YES_NO_OPTION },
        "name": option_name(arg),
        "description": describe(arg.get_help().map(ToString::to_string)),
    });
    if arg.is_required_set() {
        declared["required"] = json!(true);
    }
    let choices: Vec<Value> = arg.get_possible_values().iter().map(|value| value.get_name()).map(choice).collect();
    if takes_value(arg) && !choices.is_empty() {
        declared["choices"] = json!(choices);
    }
    declared
}

fn choice(name: &str) -> Value {
    json!({ "name": name, "value": name })
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns the name of an option: that of its flag, or of its value if that is a simple word.
fn option_name(arg: &Arg) -> String {
    if let Some(flag) = arg.get_long() {
        return flag.to_owned();
    }
    let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.to_lowercase());
    let is_word = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase());
    value.filter(is_word).unwrap_or_else(|| arg.get_id().to_string())
}

fn describe(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    if text.chars().count() <= MAX_DESCRIPTION_LENGTH {
        return text;
    }
    let start: String = text.chars().take(MAX_DESCRIPTION_LENGTH - 1).collect();
    format!("{start}…")
}

/// Returns the text command that a slash command stands for; `None` if there is no such command.
pub fn command_text(data: &Value) -> Option<String> {
    let root = SlashCommand::command();
    let (mut command, mut text, mut options) =
        (root.find_subcommand(data["name"].as_str()?)?, format!("/{}", data["name"].as_str()?), &data["options"]);
    while let Some(sub) = chosen_subcommand(options) {
        command = command.find_subcommand(sub["name"].as_str()?)?;
        text = format!("{text} {}", command.get_name());
        options = &sub["options"];
    }
    let given = |arg: &Arg| {
        let name = option_name(arg);
        options.as_array()?.iter().find(|option| option["name"] == name.as_str()).map(|option| &option["value"])
    };
    for arg in shown_arguments(command) {
        match (given(arg), arg.get_long()) {
            (Some(Value::Bool(true)), Some(flag)) if !takes_value(arg) => text += &format!(" --{flag}"),
            (Some(Value::String(value)), flag) if takes_value(arg) => {
                let flag = flag.map(|flag| format!("--{flag} ")).unwrap_or_default();
                let value: Vec<&str> = value.split_whitespace().collect();
                text += &format!(" {flag}{}", value.join(" "));
            }
            _ => {}
        }
    }
    Some(text.trim_end().to_owned())
}

fn chosen_subcommand(options: &Value) -> Option<&Value> {
    options.as_array()?.iter().find(|option| option["type"] == SUB_COMMAND)
}

/// Tells whether a registered value contains everything that was declared; Discord adds fields and leaves out
/// empty lists.
fn is_registered(declared: &Value, registered: &Value) -> bool {
    match (declared, registered) {
        (Value::Object(fields), registered) => fields.iter().all(|(key, value)| is_registered(value, &registered[key])),
        (Value::Array(items), Value::Null) => items.is_empty(),
        (Value::Array(items), Value::Array(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(item, other)| is_registered(item, other))
        }
        (value, other) => value == other,
    }
}

/// Tells whether the commands must be registered anew.
pub fn must_register(declared: &[Value], registered: &[Value]) -> bool {
    let is_known = |command: &Value| {
        registered.iter().any(|known| known["name"] == command["name"] && is_registered(command, known))
    };
    declared.len() != registered.len() || !declared.iter().all(is_known)
}

/// Registers the commands if they changed. It is retried until it succeeds or `ending` is set.
pub(crate) async fn run_registration(discord: &DiscordClient, mut ending: watch::Receiver<bool>) {
    for failures in 0.. {
        let registering = async { register_commands(discord).await };
        let result = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            result = registering => result,
        };
        let Err(error) = result else { return };
        if error.is_refused() {
            return tracing::warn!(%error, "slash commands not registered");
        }
        tracing::info!(%error, "slash commands not registered yet");
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = tokio::time::sleep(RETRY_BACKOFF.delay_after(failures)) => {}
        }
    }
}

async fn register_commands(discord: &DiscordClient) -> Result<(), DiscordApiError> {
    let application = discord.current_application().await?.id;
    let declared = declare_commands();
    let registered = discord.list_commands(application).await?;
    if must_register(&declared, &registered) {
        discord.replace_commands(application, &json!(declared)).await?;
        tracing::info!(count = declared.len(), "slash commands registered");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use grove_conversations::commands::parse::parse_message;

    use super::*;

    /// Presses through a command with a value for every option.
    fn fill_in(declared: &Value) -> Value {
        let fill = |option: &Value| {
            let value = match option["choices"].as_array() {
                Some(choices) => choices[0]["value"].clone(),
                None if option["type"] == YES_NO_OPTION => json!(true),
                None => json!("some-name"),
            };
            json!({ "name": option["name"], "type": option["type"], "value": value })
        };
        let options = declared["options"].as_array().unwrap();
        json!({ "name": declared["name"], "type": declared["type"], "options": options.iter().map(fill).collect::<Vec<_>>() })
    }

    #[test]
    fn every_command_is_one_that_can_be_typed() {
        let mut texts = Vec::new();
        for command in declare_commands() {
            let subs = command["options"].as_array().unwrap().iter().filter(|option| option["type"] == SUB_COMMAND);
            let subs: Vec<&Value> = subs.collect();
            if subs.is_empty() {
                texts.push(command_text(&fill_in(&command)).unwrap());
            }
            for sub in subs {
                let data = json!({ "name": command["name"], "options": [fill_in(sub)] });
                texts.push(command_text(&data).unwrap());
            }
        }
        for text in &texts {
            // Flags that exclude each other and values of a kind of their own are refused, as typed ones are.
            let text = text.replace(" --name-only", "").replace("--method some-name", "--method squash");
            let text = text.replace("/help some-name", "/help status");
            assert!(matches!(parse_message(&text), Ok(Some(_))), "{text}: {:?}", parse_message(&text));
        }
        for expected in [
            "/status",
            "/worktree list",
            "/worktree create some-name --from some-name",
            "/worktree remove some-name --force",
            "/codebase some-name",
            "/agent some-name",
            "/worktree cleanup merged --dry-run",
            "/stop",
            "/retry",
        ] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:#?}");
        }
    }

    #[test]
    fn the_declaration_fits_discords_limits() {
        fn check_names(value: &Value) {
            for option in value["options"].as_array().unwrap_or(&Vec::new()) {
                let (name, description) = (option["name"].as_str().unwrap(), option["description"].as_str().unwrap());
                let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
                assert!((1..=32).contains(&name.len()) && name.chars().all(fits), "{name}");
                assert!((1..=100).contains(&description.chars().count()), "{name}: {description}");
                check_names(option);
            }
            let required: Vec<bool> = value["options"]
                .as_array()
                .unwrap_or(&Vec::new())
                .iter()
                .map(|option| option["required"] == true)
                .collect();
            assert!(required.is_sorted_by(|one, next| *one >= *next), "required options come first: {value}");
            assert!(required.len() <= 25);
        }
        let declared = declare_commands();
        assert!(declared.len() <= 100);
        check_names(&json!({ "options": declared }));
    }

    #[test]
    fn options_become_words() {
        let text = |data: Value| command_text(&data);
        let sub = |name: &str, options: Value| json!({ "name": "worktree", "options": [{ "name": name, "type": 1, "options": options }] });
        let name = json!([{ "name": "name", "type": 3, "value": " fix-login\n/stop " }]);
        assert_eq!(text(sub("remove", name)).unwrap(), "/worktree remove fix-login /stop");
        let not_forced = json!([{ "name": "force", "type": 5, "value": false }]);
        assert_eq!(text(sub("remove", not_forced)).unwrap(), "/worktree remove");
        assert_eq!(text(json!({ "name": "status" })).unwrap(), "/status");
        assert_eq!(text(json!({ "name": "unknown" })), None);
        assert_eq!(text(sub("unknown", json!([]))), None);
        assert_eq!(text(json!({})), None);
    }

    #[test]
    fn commands_are_registered_only_if_they_differ() {
        let declared = declare_commands();
        let mut registered: Vec<Value> = declared.clone();
        for command in &mut registered {
            command["id"] = json!("5");
            command["dm_permission"] = json!(true);
            if command["options"] == json!([]) {
                command.as_object_mut().unwrap().remove("options");
            }
        }
        assert!(!must_register(&declared, &registered));
        assert!(must_register(&declared, &registered[1..]));
        registered[0]["description"] = json!("Something else");
        assert!(must_register(&declared, &registered));
        assert!(must_register(&declared, &[]));
    }
}
