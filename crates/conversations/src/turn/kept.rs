//! Messages that are kept until it is known which codebase they are about.
//!
//! With several codebases and no choice, the answer to a message is a question, and the message keeps the
//! status `asked`. A codebase's name, `/codebase NAME` or the next message of a conversation that has a
//! codebase by then runs it; the answer to that message is the agent's.

use grove_model::IncomingPayload;
use grove_store::{InboxMessage, InboxOutcome};

use crate::commands::codebase::choose_codebase;
use crate::replies;
use crate::turn::agent::WrittenMessage;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

/// The next step for a message to the agent.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    /// The message is the name of a codebase, and thereby answers the question.
    Choose,
    /// It is not known which codebase the message is about.
    Ask,
    Run,
}

/// Decides about a message. `is_open`: the conversation has neither codebase nor folder; `has_kept`: earlier
/// messages wait for the choice.
fn next_step(text: &str, codebases: &[String], is_open: bool, has_kept: bool) -> NextStep {
    let asks = is_open && codebases.len() > 1;
    let is_name = codebases.iter().any(|name| name == text.trim());
    match (asks, is_name) {
        (true, true) => NextStep::Choose,
        (false, true) if has_kept => NextStep::Choose,
        (true, false) => NextStep::Ask,
        (false, _) => NextStep::Run,
    }
}

impl TurnContext<'_> {
    /// Answers a message that is no command: with the agent, if it is known which codebase it is about.
    pub(super) async fn answer_words(&self, written: WrittenMessage<'_>) -> Result<TurnOutcome, TurnError> {
        let store = &self.conversations.store;
        let codebases = store.list_codebases().await?.into_iter().map(|codebase| codebase.name).collect::<Vec<_>>();
        let kept = store.kept_messages(self.conversation.id, written.seq).await?;
        let is_open = self.conversation.codebase.is_none() && self.conversation.cwd.is_none();
        match next_step(written.text, &codebases, is_open, !kept.is_empty()) {
            NextStep::Choose => {
                let reply = choose_codebase(self, written.text.trim()).await?;
                self.run_kept_messages(reply, written.seq).await
            }
            NextStep::Ask => Ok(TurnOutcome::asking_for_codebase(replies::codebase_choice(codebases))),
            NextStep::Run => self.run_with_kept(&kept, Some(written)).await,
        }
    }

    /// Runs the kept messages before `seq` in the codebase that was just chosen. The answer is the agent's, or
    /// `reply` if none was kept.
    pub(super) async fn run_kept_messages(&self, reply: String, seq: i64) -> Result<TurnOutcome, TurnError> {
        let kept = self.conversations.store.kept_messages(self.conversation.id, seq).await?;
        if kept.is_empty() {
            return Ok(TurnOutcome::from_answer(reply));
        }
        self.send_notices(&[reply]).await?;
        let Some(conversation) = self.conversations.store.find_conversation(self.key.conversation).await? else {
            return Ok(TurnOutcome::without_answer());
        };
        TurnContext { conversation: &conversation, ..self.clone() }.run_with_kept(&kept, None).await
    }

    /// Gives the agent the kept messages and the last one, as one message.
    async fn run_with_kept(
        &self,
        kept: &[InboxMessage],
        last: Option<WrittenMessage<'_>>,
    ) -> Result<TurnOutcome, TurnError> {
        let written = kept.iter().filter_map(|message| match &message.event {
            IncomingPayload::Message { text, context, hints } => {
                Some(WrittenMessage { text, context: context.as_deref(), hints, seq: message.seq })
            }
            IncomingPayload::Closed { .. } | IncomingPayload::Pushed { .. } => None,
        });
        let all: Vec<WrittenMessage<'_>> = written.chain(last).collect();
        let Some(newest) = all.last() else { return Ok(TurnOutcome::without_answer()) };
        let text = all.iter().map(|written| written.text).collect::<Vec<_>>().join("\n\n");
        let ending = self.answer_with_agent(WrittenMessage { text: &text, ..*newest }.into()).await?;
        if ending.end == InboxOutcome::Done {
            for message in kept {
                self.conversations.store.mark_retried(self.key, message.id).await?;
            }
        }
        Ok(ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_asked_about_only_while_its_codebase_is_not_clear() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (two, one) = (names(&["app", "site"]), names(&["app"]));
        for (text, codebases, is_open, has_kept, step) in [
            ("fix it", &two, true, false, NextStep::Ask),
            ("fix it", &two, true, true, NextStep::Ask),
            (" site\n", &two, true, true, NextStep::Choose),
            ("site", &two, true, false, NextStep::Choose),
            ("site", &two, false, true, NextStep::Choose),
            ("site", &two, false, false, NextStep::Run),
            ("fix it", &two, false, true, NextStep::Run),
            ("app", &one, true, false, NextStep::Run),
            ("fix it", &one, true, false, NextStep::Run),
            ("fix it", &names(&[]), true, false, NextStep::Run),
        ] {
            assert_eq!(
                next_step(text, codebases, is_open, has_kept),
                step,
                "{text} {codebases:?} {is_open} {has_kept}"
            );
        }
    }
}
