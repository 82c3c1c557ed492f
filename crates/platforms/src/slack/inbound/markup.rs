//! Slack's markup of a text, turned into plain text for the agent: `<@U1>`, `<#C1|name>`, `<https://…|label>`
//! and the entities `&amp;`, `&lt;`, `&gt;`.

use std::collections::HashMap;

use grove_conversations::commands::syntax::CommandSyntax;

use crate::mention::BotName;

/// The names of users, by their ids.
pub type UserNames = HashMap<String, String>;

/// Returns the plain text.
pub fn plain_text(text: &str, names: &UserNames) -> String {
    decode_text(text, None, names)
}

/// A user whose mentions are written in another way.
#[derive(Clone, Copy)]
struct RenamedUser<'a> {
    user: &'a str,
    name: &'a str,
}

fn decode_text(text: &str, bot: Option<RenamedUser<'_>>, names: &UserNames) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find('<') {
        out.push_str(&decode_entities(&rest[..start]));
        let behind = &rest[start + 1..];
        let end = behind.find(['<', '>', '\n']).filter(|end| behind[*end..].starts_with('>'));
        let Some(end) = end else {
            out.push('<');
            rest = behind;
            continue;
        };
        let reference = &behind[..end];
        rest = &behind[end + 1..];
        let user = reference.strip_prefix('@').and_then(|user| user.split('|').next());
        if let Some(bot) = bot.filter(|bot| user == Some(bot.user)) {
            // Slack allows a mention in the middle of a word.
            if out.ends_with(char::is_alphanumeric) {
                out.push(' ');
            }
            out.push_str(&format!("@{}", bot.name));
            if rest.starts_with(char::is_alphanumeric) {
                out.push(' ');
            }
        } else {
            out.push_str(&plain_reference(reference, names));
        }
    }
    out.push_str(&decode_entities(rest));
    out
}

/// Returns the text of a reference, which stands between `<` and `>`.
fn plain_reference(reference: &str, names: &UserNames) -> String {
    let (target, label) = match reference.split_once('|') {
        Some((target, label)) => (target, Some(decode_entities(label)).filter(|label| !label.trim().is_empty())),
        None => (reference, None),
    };
    if let Some(user) = target.strip_prefix('@') {
        let name = names.get(user).cloned().or(label);
        return format!("@{}", name.as_deref().unwrap_or(user).trim_start_matches('@'));
    }
    if let Some(channel) = target.strip_prefix('#') {
        return format!("#{}", label.as_deref().unwrap_or(channel).trim_start_matches('#'));
    }
    if let Some(special) = target.strip_prefix('!') {
        return label.unwrap_or_else(|| format!("@{}", special.split('^').next().unwrap_or_default()));
    }
    let address = decode_entities(target);
    let shown = address.strip_prefix("mailto:").unwrap_or(&address);
    let bare =
        |text: &str| text.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/').to_owned();
    match label {
        Some(label) if bare(&label) != bare(shown) => format!("{label} ({shown})"),
        _ => shown.to_owned(),
    }
}

fn decode_entities(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Returns the ids of the users that a text mentions.
pub fn mentioned_users(text: &str) -> Vec<&str> {
    let users = text.split("<@").skip(1).filter_map(|behind| behind.split(['>', '|']).next());
    users.filter(|user| !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_alphanumeric())).collect()
}

/// Returns a text without the mentions of the bot; `None` if it has none outside code.
pub fn without_mention(text: &str, bot: &str, names: &UserNames) -> Option<String> {
    // The mention gets a name that the text does not have, or plain words could look like a mention.
    let lower = text.to_lowercase();
    let name = (0u64..).map(|number| format!("bot{number}")).find(|name| !lower.contains(name))?;
    let text =
        BotName::parse(&name)?.taken_out_of(&decode_text(text, Some(RenamedUser { user: bot, name: &name }), names))?;
    let shown = names.get(bot).map_or(bot, String::as_str);
    Some(text.replace(&format!("@{name}"), &format!("@{shown}")))
}

/// Returns the command that a text means. Slack itself takes every message that begins with `/`, so people also
/// write `!status`, or put the command into backticks.
pub fn command_text(text: &str) -> String {
    let text = text.trim();
    let inner = text.strip_prefix('`').and_then(|text| text.strip_suffix('`')).map(str::trim);
    let bare = inner.filter(|inner| !inner.contains('`') && inner.starts_with(['/', '!'])).unwrap_or(text);
    let Some(command) = bare.strip_prefix('!') else { return bare.to_owned() };
    let name = command.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
    let is_alone = command[name.len()..].chars().next().is_none_or(char::is_whitespace);
    let is_known = !name.is_empty() && is_alone && !CommandSyntax::find_command(&[name]).0.is_root();
    if is_known { format!("/{command}") } else { bare.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> String {
        plain_text(text, &UserNames::from([("U2".to_owned(), "bob".to_owned())]))
    }

    #[test]
    fn markup_becomes_what_people_see() {
        for (text, shown) in [
            ("a &amp; b &lt;c&gt; &amp;lt;", "a & b <c> &lt;"),
            ("see <https://a.example/x?y=1&amp;z=2>", "see https://a.example/x?y=1&z=2"),
            ("see <https://a.example|the page>", "see the page (https://a.example)"),
            ("see <http://a.example|a.example>", "see http://a.example"),
            ("<mailto:a@b.example|a@b.example>", "a@b.example"),
            ("in <#C1|general> and <#C2>", "in #general and #C2"),
            ("<@U2> and <@U3> and <@U4|dora>", "@bob and @U3 and @dora"),
            ("<!here> <!subteam^S1|@devs> <!date^1^{date}|today>", "@here @devs today"),
            ("<@UBOT> fix", "@UBOT fix"),
            ("a <unclosed", "a <unclosed"),
        ] {
            assert_eq!(plain(text), shown, "{text}");
        }
    }

    #[test]
    fn the_mention_is_taken_out() {
        for (text, left) in [
            ("<@UBOT> fix this", Some("fix this")),
            ("<@UBOT|grove>, fix this", Some("fix this")),
            ("hey <@UBOT> fix", Some("hey fix")),
            ("<@UBOT> /status", Some("/status")),
            ("<@UBOT> !status", Some("!status")),
            ("<@UBOT>! fix", Some("fix")),
            ("<@UBOT>", Some("")),
            ("请<@UBOT>看看", Some("请 看看")),
            ("hey<@UBOT>fix", Some("hey fix")),
            ("<@U2> fix", None),
            ("`<@UBOT>` fix", None),
            ("```\n<@UBOT> fix\n```", None),
            ("grove fix", None),
            ("@UBOT fix", None),
            ("<@UBOT fix", None),
            ("&lt;@UBOT&gt; fix", None),
            ("@bot0 @bot1 fix", None),
            ("<@UBOT> ask @bot0 about `<@UBOT>`", Some("ask @bot0 about `@UBOT`")),
        ] {
            let found = without_mention(text, "UBOT", &UserNames::new());
            assert_eq!(
                found.as_deref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).as_deref(),
                left,
                "{text}"
            );
        }
        assert_eq!(mentioned_users("<@U1> <@U2|b> <@> <@U3"), ["U1", "U2", "U3"]);
    }

    #[test]
    fn a_command_can_be_written_without_a_slash_at_the_beginning() {
        for (text, command) in [
            (" /status", "/status"),
            ("`/worktree list`", "/worktree list"),
            ("!status", "/status"),
            ("!worktree list", "/worktree list"),
            ("`!status`", "/status"),
            ("!important: fix it", "!important: fix it"),
            ("!Status", "!Status"),
            ("!", "!"),
            ("!!status", "!!status"),
            ("!status-x", "!status-x"),
            ("`x` and `y`", "`x` and `y`"),
            ("fix it", "fix it"),
        ] {
            assert_eq!(command_text(text), command, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "([<>@#!|&`\n a-z/^]|<@UBOT>|&amp;|&lt;|https://|é|😀){0,60}") {
            plain(&text);
            let _ = without_mention(&text, "UBOT", &UserNames::new());
            command_text(&text);
            mentioned_users(&text);
        }
    }
}
