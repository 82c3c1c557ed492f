//! Decides whether a message is for the bot, and what it says.

use crate::discord::api::{DiscordMessage, DiscordUser, Snowflake};
use crate::markdown::MarkdownLayers;

/// Our own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotUser {
    pub id: Snowflake,
    pub name: String,
}

impl From<DiscordUser> for BotUser {
    fn from(user: DiscordUser) -> Self {
        Self { id: user.id, name: user.username }
    }
}

/// The kind of channel that a message stands in, as far as it is known without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePlace {
    /// A direct message to the bot.
    Direct,
    /// A thread that the bot made in this channel.
    OwnThread { parent: Snowflake },
    /// Another channel or thread of a server.
    Elsewhere,
}

/// The meaning of a message for the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relevance {
    Ignored(&'static str),
    /// The words of the person, without the bot's mention.
    Asked {
        text: String,
    },
}

/// The words of a message that consists of files only.
const FILES_ONLY_TEXT: &str = "See the attached files.";

/// Decides about a message.
pub fn classify_message(message: &DiscordMessage, us: Snowflake, place: MessagePlace) -> Relevance {
    if message.author.id == us {
        return Relevance::Ignored("our own message");
    }
    if message.author.bot || message.webhook_id.is_some() {
        return Relevance::Ignored("by a program");
    }
    if !message.is_text() {
        return Relevance::Ignored("a remark of Discord");
    }
    let without_mention = remove_mentions(&message.content, us);
    let text = match (place, without_mention) {
        (_, Some(text)) => text,
        (MessagePlace::Direct | MessagePlace::OwnThread { .. }, None) => message.content.trim().to_owned(),
        (MessagePlace::Elsewhere, None) => return Relevance::Ignored("no mention"),
    };
    match text.as_str() {
        "" if message.attachments.is_empty() => Relevance::Ignored("no words"),
        "" => Relevance::Asked { text: FILES_ONLY_TEXT.to_owned() },
        _ => Relevance::Asked { text },
    }
}

/// Returns the text without the mentions of an account outside code; `None` if it has none.
pub fn remove_mentions(text: &str, account: Snowflake) -> Option<String> {
    let forms = [format!("<@{account}>"), format!("<@!{account}>")];
    if !forms.iter().any(|form| text.contains(form)) {
        return None;
    }
    let layers = MarkdownLayers::from_text(text);
    let places = forms.iter().flat_map(|form| text.match_indices(form.as_str()));
    let mut places: Vec<(usize, usize)> = places.map(|(at, form)| (at, at + form.len())).collect();
    places.retain(|(start, _)| !layers.is_code(*start));
    places.sort_unstable();
    if places.is_empty() {
        return None;
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (start, end) in places {
        out.push_str(&text[at..start]);
        at = end;
        let rest = &text[at..];
        if out.trim().is_empty() {
            // A mention at the beginning is removed with its comma.
            at += rest.len() - rest.trim_start_matches([',', ':', ';', '!', ' ', '\t']).len();
        } else if out.ends_with([' ', '\t']) && !rest.starts_with(|c: char| c.is_alphanumeric()) {
            // No gap is left behind.
            out.truncate(out.trim_end_matches([' ', '\t']).len());
        }
    }
    out.push_str(&text[at..]);
    Some(out.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOT: Snowflake = Snowflake(42);

    fn message(content: &str) -> DiscordMessage {
        DiscordMessage {
            id: Snowflake(1),
            channel_id: Snowflake(2),
            guild_id: Some(Snowflake(3)),
            author: DiscordUser { id: Snowflake(4), username: "alice".to_owned(), bot: false },
            content: content.to_owned(),
            kind: 0,
            webhook_id: None,
            attachments: Vec::new(),
        }
    }

    fn asked(text: &str) -> Relevance {
        Relevance::Asked { text: text.to_owned() }
    }

    #[test]
    fn a_mention_is_needed_outside_of_direct_messages_and_own_threads() {
        let own_thread = MessagePlace::OwnThread { parent: Snowflake(9) };
        for (content, place, relevance) in [
            ("<@42> fix it", MessagePlace::Elsewhere, asked("fix it")),
            ("<@!42>, fix it", MessagePlace::Elsewhere, asked("fix it")),
            ("please <@42> fix it", MessagePlace::Elsewhere, asked("please fix it")),
            ("fix it, <@42>", MessagePlace::Elsewhere, asked("fix it,")),
            ("fix it", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("fix it", MessagePlace::Direct, asked("fix it")),
            ("fix it", own_thread, asked("fix it")),
            ("<@42> fix it", own_thread, asked("fix it")),
            ("<@421> fix it", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("<@&42> fix it", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("<@ 42> fix it", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("@grove fix it", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("`<@42>` is its name", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("```\n<@42> fix it\n```", MessagePlace::Elsewhere, Relevance::Ignored("no mention")),
            ("<@42>\n```\n<@42>\n```", MessagePlace::Elsewhere, asked("```\n<@42>\n```")),
            ("<@42>", MessagePlace::Elsewhere, Relevance::Ignored("no words")),
            ("  ", MessagePlace::Direct, Relevance::Ignored("no words")),
        ] {
            assert_eq!(classify_message(&message(content), BOT, place), relevance, "{content:?} {place:?}");
        }
    }

    #[test]
    fn programs_and_remarks_are_ignored() {
        let direct = MessagePlace::Direct;
        let mut ours = message("hello");
        ours.author.id = BOT;
        assert_eq!(classify_message(&ours, BOT, direct), Relevance::Ignored("our own message"));
        let mut bot = message("hello");
        bot.author.bot = true;
        assert_eq!(classify_message(&bot, BOT, direct), Relevance::Ignored("by a program"));
        let webhook = DiscordMessage { webhook_id: Some(Snowflake(5)), ..message("<@42> hello") };
        assert_eq!(classify_message(&webhook, BOT, MessagePlace::Elsewhere), Relevance::Ignored("by a program"));
        for kind in [6, 7, 18, 20, 21, 23, 999] {
            let remark = DiscordMessage { kind, ..message("<@42> hello") };
            assert_eq!(classify_message(&remark, BOT, direct), Relevance::Ignored("a remark of Discord"), "{kind}");
        }
        let reply = DiscordMessage { kind: 19, ..message("<@42> hello") };
        assert_eq!(classify_message(&reply, BOT, MessagePlace::Elsewhere), asked("hello"));
    }

    proptest! {
        #[test]
        fn no_text_is_taken_without_a_mention(text in "(.|\n|<@42>|<@!42>|`|```\n|<@4|2>){0,40}") {
            let relevance = classify_message(&message(&text), BOT, MessagePlace::Elsewhere);
            if !text.contains("<@42>") && !text.contains("<@!42>") {
                prop_assert_eq!(relevance, Relevance::Ignored("no mention"));
            }
        }
    }
}
