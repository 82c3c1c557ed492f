//! The outbox entries that are still to be sent to their platform, and the processes that send them.

use grove_model::{Choice, MessageId, MessageStatus, Moment, OutboxKind, ProcessOwner};

use crate::outbox::read_choice;
use crate::row::RowReader;
use crate::{Store, StoreError};

// The query repeats the condition of the index `unsent` word for word, or SQLite does not see that it may use
// the index.
const UNSENT_MESSAGES: &str = "SELECT o.id AS id, o.kind AS kind, o.text AS text, o.inbox_id AS inbox_id, o.tries AS tries, \
     o.sender AS sender, o.sender_until AS sender_until, c.platform_conversation_id AS conversation, i.draft AS draft, i.agent_at AS agent_at, \
     o.choice AS choice, o.sent_as AS sent_as, i.delivery AS delivery, i.status AS status \
     FROM grove_outbox o JOIN remote_agent_conversations c ON c.id = o.conversation_id \
     LEFT JOIN grove_inbox i ON i.id = o.inbox_id \
     WHERE o.via IS NOT NULL AND o.sent_at IS NULL AND o.via = $1 AND (o.not_before IS NULL OR o.not_before <= $2) \
       AND NOT EXISTS (SELECT 1 FROM grove_outbox e WHERE e.via IS NOT NULL AND e.sent_at IS NULL \
          AND e.conversation_id = o.conversation_id AND e.seq < o.seq) \
     ORDER BY o.tries, o.created_at LIMIT $3";
const ANY_UNSENT_MESSAGE: &str = "SELECT o.id AS id FROM grove_outbox o JOIN remote_agent_conversations c ON c.id = o.conversation_id \
     WHERE o.via IS NOT NULL AND o.sent_at IS NULL AND o.via = $1 AND c.platform_conversation_id = $2 LIMIT 1";
const TAKE_UNSENT_MESSAGE: &str = "UPDATE grove_outbox SET sender = $2, sender_until = $4, tries = tries + 1 WHERE id = $1 AND sent_at IS NULL AND tries = $3";
const MARK_MESSAGE_SENT: &str = "UPDATE grove_outbox SET sent_at = $2, sent_as = $3, unsendable = NULL, sender = NULL WHERE id = $1 AND sent_at IS NULL";
const POSTPONE_SENDING: &str =
    "UPDATE grove_outbox SET not_before = $2, unsendable = $3, sender = NULL WHERE id = $1 AND sent_at IS NULL";
const GIVE_UP_SENDING: &str =
    "UPDATE grove_outbox SET sent_at = $2, unsendable = $3, sender = NULL WHERE id = $1 AND sent_at IS NULL";
const UPDATE_SENT_PARTS: &str = "UPDATE grove_outbox SET sent_as = $2 WHERE id = $1 AND sent_at IS NULL";
const UPDATE_DRAFT: &str = "UPDATE grove_inbox SET draft = $2 WHERE id = $1";

/// An outbox entry that its platform does not have yet: the first one of its conversation.
#[derive(Clone, Debug)]
pub struct UnsentMessage {
    pub id: MessageId,
    /// The platform's id of the conversation.
    pub conversation: String,
    pub manner: OutboxKind,
    pub text: String,
    /// The message to which it belongs.
    pub message: Option<MessageId>,
    pub tries: i64,
    pub sender: Option<ProcessOwner>,
    pub sender_until: Option<Moment>,
    /// The platform's ids of the partial answer that was posted so far.
    pub draft: Option<String>,
    /// The platform's ids of the parts that were sent so far.
    pub sent_parts: Option<String>,
    /// An agent was started for the message, so a draft may exist on the platform that no process recorded.
    pub had_agent: bool,
    /// The question that it asks, if that has a fixed set of answers.
    pub choice: Option<Choice>,
    /// The platform's id of the message to which it belongs.
    pub delivery: Option<String>,
    /// The status of that message.
    pub status: Option<MessageStatus>,
}

impl Store {
    /// Returns the entries to send through an adapter: the first one of each conversation.
    pub async fn next_unsent(&self, via: &str, most: i64) -> Result<Vec<UnsentMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(UNSENT_MESSAGES).bind(via.to_owned()).bind(Moment::now().to_string()).bind(most);
            let read = |row| {
                let row = RowReader { row, table: "grove_outbox" };
                Ok(UnsentMessage {
                    id: row.parse("id")?,
                    conversation: row.required_text("conversation")?,
                    manner: row.parse("kind")?,
                    text: row.required_text("text")?,
                    message: row.parse_optional("inbox_id")?,
                    tries: row.required_number("tries")?,
                    sender: row.parse_optional("sender")?,
                    sender_until: row.parse_optional("sender_until")?,
                    draft: row.optional_text("draft")?,
                    sent_parts: row.optional_text("sent_as")?,
                    had_agent: row.optional_text("agent_at")?.is_some(),
                    choice: read_choice(&row)?,
                    delivery: row.optional_text("delivery")?,
                    status: row.parse_optional("status")?,
                })
            };
            query.fetch_all(&self.pool).await?.iter().map(read).collect()
        })
        .await
    }

    /// Tells whether any entry is still to be sent to a conversation of a platform, now or later.
    pub async fn has_unsent(&self, via: &str, conversation: &str) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(ANY_UNSENT_MESSAGE).bind(via.to_owned()).bind(conversation.to_owned());
            Ok(query.fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// Takes an entry to send it, if no other process took it since the caller read it.
    pub async fn take_unsent(
        &self,
        unsent: &UnsentMessage,
        sender: &ProcessOwner,
        until: Moment,
    ) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(TAKE_UNSENT_MESSAGE)
                .bind(unsent.id.to_string())
                .bind(sender.to_string())
                .bind(unsent.tries);
            let query = query.bind(until.to_string());
            Ok(query.execute(&self.pool).await?.rows_affected() == 1)
        })
        .await
    }

    /// Records that an entry was sent, with the platform's ids of it.
    pub async fn mark_sent(&self, id: MessageId, sent_as: &str) -> Result<(), StoreError> {
        self.write_sending(MARK_MESSAGE_SENT, id, Moment::now(), sent_as).await
    }

    /// Postpones the sending of an entry until `not_before`.
    pub async fn send_later(&self, id: MessageId, not_before: Moment, why: &str) -> Result<(), StoreError> {
        self.write_sending(POSTPONE_SENDING, id, not_before, why).await
    }

    /// Records that an entry can never be sent; the entries behind it are sent.
    pub async fn send_never(&self, id: MessageId, why: &str) -> Result<(), StoreError> {
        self.write_sending(GIVE_UP_SENDING, id, Moment::now(), why).await
    }

    async fn write_sending(
        &self,
        statement: &'static str,
        id: MessageId,
        at: Moment,
        words: &str,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(id.to_string()).bind(at.to_string()).bind(words.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Stores the platform's ids of the parts of an entry that were sent so far.
    pub async fn keep_sent_parts(&self, entry: MessageId, sent_as: &str) -> Result<(), StoreError> {
        self.write_sent_as(UPDATE_SENT_PARTS, entry, sent_as).await
    }

    /// Stores the platform's ids of the growing answer to a message.
    pub async fn keep_draft(&self, message: MessageId, sent_as: &str) -> Result<(), StoreError> {
        self.write_sent_as(UPDATE_DRAFT, message, sent_as).await
    }

    async fn write_sent_as(&self, statement: &'static str, id: MessageId, sent_as: &str) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(id.to_string()).bind(sent_as.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}
