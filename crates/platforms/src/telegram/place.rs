//! The place of a conversation: a chat, or a topic in one.

use std::fmt;

/// A chat, or a topic of a group. Its text is the id of the conversation: `123`, `-100123` or `-100123:7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatPlace {
    pub chat: i64,
    pub topic: Option<i32>,
}

impl ChatPlace {
    /// Parses the id of a conversation.
    pub fn parse(conversation: &str) -> Option<Self> {
        let (chat, topic) = match conversation.split_once(':') {
            Some((chat, topic)) => (chat, Some(topic.parse().ok()?)),
            None => (conversation, None),
        };
        Some(Self { chat: chat.parse().ok()?, topic })
    }

    /// Returns the id of the conversation that a topic belongs to.
    pub fn parent_id(self) -> Option<String> {
        self.topic.map(|_| self.chat.to_string())
    }
}

impl fmt::Display for ChatPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.topic {
            Some(topic) => write!(f, "{}:{topic}", self.chat),
            None => write!(f, "{}", self.chat),
        }
    }
}

/// The id under which a message is accepted. Each bot counts the messages of a private chat by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageKey {
    pub bot: i64,
    pub chat: i64,
    pub message: i32,
}

impl MessageKey {
    /// Parses a delivery; `None` if it is not that of a message, for example that of a button.
    pub fn parse(delivery: &str) -> Option<Self> {
        let mut numbers = delivery.strip_prefix("telegram:")?.split(':');
        let key = Self {
            bot: numbers.next()?.parse().ok()?,
            chat: numbers.next()?.parse().ok()?,
            message: numbers.next()?.parse().ok()?,
        };
        numbers.next().is_none().then_some(key)
    }
}

impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "telegram:{}:{}:{}", self.bot, self.chat, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for (id, chat, topic) in [("123", 123, None), ("-100123", -100_123, None), ("-100123:7", -100_123, Some(7))] {
            let place = ChatPlace::parse(id).unwrap();
            assert_eq!((place.chat, place.topic, place.to_string().as_str()), (chat, topic, id));
        }
        assert_eq!(ChatPlace::parse("-100123:7").unwrap().parent_id().as_deref(), Some("-100123"));
        for id in ["", "x", "1:", ":1", "1:2:3", "1:99999999999"] {
            assert_eq!(ChatPlace::parse(id), None, "{id}");
        }
        let key = MessageKey { bot: 7, chat: -100, message: 3 };
        assert_eq!(MessageKey::parse(&key.to_string()), Some(key));
        assert_eq!(MessageKey::parse("telegram:7:press:3"), None);
    }
}
