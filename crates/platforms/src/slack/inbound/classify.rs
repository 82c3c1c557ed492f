//! Decides whether a message is for us.

use crate::slack::inbound::markup::{UserNames, without_mention};
use crate::slack::inbound::payload::{MessageEvent, SlackPayload};

/// The bot's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotAccount {
    pub user: String,
    pub name: String,
}

/// The meaning of an event for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relevance {
    Ignored(&'static str),
    /// The message is for us.
    Asked,
    /// The message is a reply in a thread, without a mention: it is for us if we take part in the thread.
    Overheard,
}

/// The kinds of messages beside plain ones that people write.
const WRITTEN_SUBTYPES: [&str; 2] = ["file_share", "thread_broadcast"];

/// Decides about a message.
pub fn classify_event(event: &MessageEvent, us: &BotAccount) -> Relevance {
    if let Some(why) = ignored_reason(event) {
        return Relevance::Ignored(why);
    }
    if event.user.as_deref() == Some(us.user.as_str()) {
        return Relevance::Ignored("our own message");
    }
    let is_mention = event.is_mention || without_mention(&event.text, &us.user, &UserNames::new()).is_some();
    if is_mention || event.is_direct {
        Relevance::Asked
    } else if is_reply(event) {
        Relevance::Overheard
    } else {
        Relevance::Ignored("no mention")
    }
}

/// Tells whether what Slack sent may be for us, as far as that is known without our account. Everything else is
/// acknowledged but not stored: most messages of a channel are not our business.
pub fn is_worth_storing(payload: &SlackPayload) -> bool {
    match payload {
        SlackPayload::Message { event, .. } => {
            ignored_reason(event).is_none()
                && (event.is_mention || event.is_direct || is_reply(event) || event.text.contains("<@"))
        }
        SlackPayload::Press(_) => true,
        SlackPayload::Verification { .. } | SlackPayload::Other => false,
    }
}

fn ignored_reason(event: &MessageEvent) -> Option<&'static str> {
    if event.is_from_bot {
        return Some("the message of a bot");
    }
    if event.is_hidden || event.subtype.as_deref().is_some_and(|subtype| !WRITTEN_SUBTYPES.contains(&subtype)) {
        return Some("not a new message of a person");
    }
    event.user.is_none().then_some("the message of no person")
}

fn is_reply(event: &MessageEvent) -> bool {
    event.thread_ts.as_ref().is_some_and(|thread| *thread != event.ts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> BotAccount {
        BotAccount { user: "UBOT".to_owned(), name: "grove".to_owned() }
    }

    fn message(text: &str) -> MessageEvent {
        MessageEvent {
            channel: "C1".to_owned(),
            user: Some("U1".to_owned()),
            text: text.to_owned(),
            ts: "17.5".to_owned(),
            ..MessageEvent::default()
        }
    }

    #[test]
    fn a_mention_a_direct_message_and_a_reply_count() {
        assert_eq!(classify_event(&message("hi <@UBOT>"), &us()), Relevance::Asked);
        assert_eq!(classify_event(&MessageEvent { is_mention: true, ..message("hi") }, &us()), Relevance::Asked);
        assert_eq!(classify_event(&MessageEvent { is_direct: true, ..message("hi") }, &us()), Relevance::Asked);
        let reply = MessageEvent { thread_ts: Some("16.1".to_owned()), ..message("and then?") };
        assert_eq!(classify_event(&reply, &us()), Relevance::Overheard);
        for subtype in WRITTEN_SUBTYPES {
            let written = MessageEvent { subtype: Some(subtype.to_owned()), ..message("<@UBOT> hi") };
            assert_eq!(classify_event(&written, &us()), Relevance::Asked, "{subtype}");
        }
    }

    #[test]
    fn everything_else_is_ignored() {
        let asked = message("<@UBOT> hi");
        let root = MessageEvent { thread_ts: Some("17.5".to_owned()), ..message("the first of a thread") };
        for (event, stored) in [
            (message("hi"), false),
            (message("hi <@U2>"), true),
            (message("`<@UBOT>`"), true),
            (root, false),
            (MessageEvent { is_from_bot: true, ..asked.clone() }, false),
            (MessageEvent { user: None, ..asked.clone() }, false),
            (MessageEvent { user: Some("UBOT".to_owned()), ..asked.clone() }, true),
            (MessageEvent { is_hidden: true, ..asked.clone() }, false),
            (MessageEvent { subtype: Some("message_changed".to_owned()), ..asked.clone() }, false),
            (MessageEvent { subtype: Some("channel_join".to_owned()), is_direct: true, ..asked.clone() }, false),
            (MessageEvent { subtype: Some("a_new_one".to_owned()), is_mention: true, ..asked }, false),
        ] {
            assert!(matches!(classify_event(&event, &us()), Relevance::Ignored(_)), "{event:?}");
            let payload = SlackPayload::Message { event_id: None, event: Box::new(event) };
            assert_eq!(is_worth_storing(&payload), stored, "{payload:?}");
        }
    }
}
