//! Handles a press on a button: it becomes a message of the person who pressed it.

use grove_model::{IncomingEvent, IncomingPayload};
use serde_json::{Value, json};

use crate::choices::find_pressed;
use crate::event_queue::HandleError;
use crate::slack::SLACK_PLATFORM;
use crate::slack::api::MessageContent;
use crate::slack::inbound::handle::SlackEventHandler;
use crate::slack::inbound::payload::{ButtonPress, conversation_id, parse_conversation};
use crate::slack::outbound::format::escape_text;

impl SlackEventHandler<'_> {
    pub(crate) async fn handle_press(&self, press: &ButtonPress) -> Result<String, HandleError> {
        let conversations = &self.adapter.conversations;
        let Some(pressed) = find_pressed(conversations, SLACK_PLATFORM, &press.value).await? else {
            return Ok("ignored: not a button of ours".to_owned());
        };
        let thread = press.thread_ts.as_ref().unwrap_or(&press.message_ts);
        if pressed.conversation != conversation_id(&press.channel, thread) {
            return Ok("ignored: the button of another conversation".to_owned());
        }
        if !self.may_direct(&press.user).await? {
            return Ok(format!("refused: {} is not in adapters.slack.allowed_users", press.user));
        }
        let incoming = IncomingEvent {
            via: SLACK_PLATFORM.to_owned(),
            platform: SLACK_PLATFORM.to_owned(),
            parent: parse_conversation(&pressed.conversation).map(|(channel, _)| channel.to_owned()),
            conversation: pressed.conversation,
            user: Some(press.user.clone()),
            // A question is answered once: the first press counts.
            delivery: Some(format!("{SLACK_PLATFORM}:press:{}", pressed.question)),
            event: IncomingPayload::Message { text: pressed.text, context: None, hints: Box::default() },
        };
        let accepted = conversations.accept_incoming(&incoming).await?;
        if accepted.repeated {
            return Ok("accepted before".to_owned());
        }
        self.replace_buttons(press).await;
        Ok("accepted".to_owned())
    }

    /// Replaces the buttons by what was chosen, if that is possible.
    async fn replace_buttons(&self, press: &ButtonPress) {
        let note = format!("<@{}> chose *{}*", press.user, escape_text(&press.label));
        let blocks = blocks_after_choice(&press.message_blocks, &note);
        let content = MessageContent { text: &press.message_text, blocks: Some(&blocks), metadata: None };
        if let Err(error) = self.api.update_message(&press.channel, &press.message_ts, content).await {
            tracing::info!(%error, "buttons not replaced");
        }
    }
}

/// Returns the blocks of a message without its buttons, and with a note.
fn blocks_after_choice(blocks: &[Value], note: &str) -> Value {
    let rest = blocks.iter().filter(|block| block["type"] != "actions").cloned();
    let note = json!({ "type": "context", "elements": [{ "type": "mrkdwn", "text": note }] });
    rest.chain([note]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buttons_go_and_the_rest_stays() {
        let blocks = [json!({ "type": "section", "text": "x" }), json!({ "type": "actions", "elements": [] })];
        let after = blocks_after_choice(&blocks, "<@U1> chose *app*");
        assert_eq!(after[0], blocks[0]);
        assert_eq!(after[1]["elements"][0]["text"], "<@U1> chose *app*");
        assert_eq!(after.as_array().unwrap().len(), 2);
    }
}
