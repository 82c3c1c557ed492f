//! Decides what an update means for us.

use crate::mention::BotName;
use crate::telegram::inbound::text::markdown_text;
use crate::telegram::inbound::wire::{CallbackQuery, Message, Update, User};
use crate::telegram::place::ChatPlace;

/// Our own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotIdentity {
    pub id: i64,
    pub name: BotName,
}

/// The meaning of an update.
#[derive(Debug)]
pub enum Relevance<'a> {
    Ignored(&'static str),
    /// A group got another id.
    Migrated {
        from: i64,
        to: i64,
    },
    /// Our membership in a chat changed.
    Member {
        chat: i64,
        status: &'a str,
    },
    Message(ChatMessage<'a>),
    Pressed(&'a CallbackQuery),
}

/// A message by a person.
#[derive(Debug)]
pub struct ChatMessage<'a> {
    pub message: &'a Message,
    pub author: &'a User,
    pub place: ChatPlace,
    /// The person's words, without the mention of the bot.
    pub text: String,
    pub call: BotCall,
}

/// How a message calls the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotCall {
    /// The chat is private, the bot is mentioned, or the message replies to it.
    Called,
    /// The message is in a topic: it is for the bot if the bot works there already.
    InTopic,
}

/// Returns the place of a message.
pub fn place_of(message: &Message) -> ChatPlace {
    ChatPlace { chat: message.chat.id, topic: message.message_thread_id.filter(|_| message.is_topic_message) }
}

/// Returns the conversation that an update belongs to, if any.
pub fn conversation_of(update: &Update) -> Option<String> {
    let message = update.message.as_ref().or_else(|| update.callback_query.as_ref()?.message.as_ref())?;
    Some(place_of(message).to_string())
}

/// Returns the meaning of an update.
pub fn classify_update<'a>(update: &'a Update, us: &BotIdentity) -> Relevance<'a> {
    if let Some(message) = &update.message {
        return classify_message(message, us);
    }
    if let Some(pressed) = &update.callback_query {
        return if pressed.from.is_bot { Relevance::Ignored("pressed by a bot") } else { Relevance::Pressed(pressed) };
    }
    if let Some(change) = &update.my_chat_member {
        let status = change.new_chat_member.as_ref().map_or("", |member| member.status.as_str());
        return Relevance::Member { chat: change.chat.id, status };
    }
    Relevance::Ignored(if update.edited_message.is_some() { "an edit" } else { "no message" })
}

fn classify_message<'a>(message: &'a Message, us: &BotIdentity) -> Relevance<'a> {
    if let Some(to) = message.migrate_to_chat_id {
        return Relevance::Migrated { from: message.chat.id, to };
    }
    let Some(author) = &message.from else { return Relevance::Ignored("without an author") };
    if author.is_bot || author.id == us.id {
        return Relevance::Ignored("written by a bot");
    }
    if !message.is_own_text() {
        return Relevance::Ignored("forwarded, or written for a chat or by a bot");
    }
    let is_private = match message.chat.kind.as_str() {
        "private" => true,
        "group" | "supergroup" => false,
        _ => return Relevance::Ignored("not in a chat with people"),
    };
    let (text, entities) = message.written_text();
    let text = markdown_text(text, entities, us);
    let (text, addressed) = match parse_command_address(&text) {
        Some((_, bot, _)) if !bot.eq_ignore_ascii_case(us.name.as_str()) => {
            return Relevance::Ignored("a command for another bot");
        }
        Some((command, _, rest)) => (format!("{command}{rest}"), true),
        None => (text, false),
    };
    let (text, mentioned) = match us.name.taken_out_of(&text) {
        Some(text) => (text, true),
        None => (text.trim().to_owned(), false),
    };
    let place = place_of(message);
    let call = if is_private || addressed || mentioned || replied_message(message).is_some_and(|it| is_by(it, us)) {
        BotCall::Called
    } else if place.topic.is_some() {
        BotCall::InTopic
    } else {
        return Relevance::Ignored("not for us");
    };
    let text = if is_private { start_as_help(text) } else { text };
    if text.is_empty() && (message.media_group_id.is_some() || !says_anything(message)) {
        return Relevance::Ignored("without a text");
    }
    Relevance::Message(ChatMessage { message, author, place, text, call })
}

/// Tells whether a message without a text of its own still has a meaning.
fn says_anything(message: &Message) -> bool {
    message.document.is_some() || replied_message(message).is_some()
}

fn is_by(message: &Message, us: &BotIdentity) -> bool {
    message.from.as_ref().is_some_and(|from| from.id == us.id)
}

/// Returns the message that a person replies to. Every message of a topic replies to the topic's beginning,
/// which means nothing.
pub fn replied_message(message: &Message) -> Option<&Message> {
    let replied = message.reply_to_message.as_deref()?;
    let is_topic_start = replied.forum_topic_created.is_some()
        || (message.is_topic_message && message.message_thread_id == Some(replied.message_id));
    (!is_topic_start).then_some(replied)
}

/// Splits `/command@bot rest` into the command, the bot and the rest.
fn parse_command_address(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start();
    let word = text.split(char::is_whitespace).next()?;
    let (command, bot) = word.split_once('@')?;
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_command = command.strip_prefix('/').is_some_and(is_name) && is_name(bot);
    is_command.then(|| (command, bot, &text[word.len()..]))
}

/// Returns `/help` for the message that the button *Start* of Telegram sends.
fn start_as_help(text: String) -> String {
    if text.split_whitespace().next() == Some("/start") { "/help".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
