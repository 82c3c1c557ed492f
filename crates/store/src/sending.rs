//! What of the outbox is still to be sent to its platform, and who is at it.

use grove_model::{MessageId, Moment, Owner};

use crate::row::Reader;
use crate::{Manner, Store, StoreError};

// The condition of the index `unsent` stands there word for word, or SQLite does not see that it may
// use it.
const UNSENT: &str = "SELECT o.id AS id, o.kind AS kind, o.text AS text, o.inbox_id AS inbox_id, o.tries AS tries, \
     o.sender AS sender, o.sender_until AS sender_until, c.platform_conversation_id AS conversation, i.draft AS draft, i.agent_at AS agent_at \
     FROM grove_outbox o JOIN remote_agent_conversations c ON c.id = o.conversation_id \
     LEFT JOIN grove_inbox i ON i.id = o.inbox_id \
     WHERE o.via IS NOT NULL AND o.sent_at IS NULL AND o.via = $1 AND (o.not_before IS NULL OR o.not_before <= $2) \
       AND NOT EXISTS (SELECT 1 FROM grove_outbox e WHERE e.via IS NOT NULL AND e.sent_at IS NULL \
          AND e.conversation_id = o.conversation_id AND e.seq < o.seq) \
     ORDER BY o.tries, o.created_at LIMIT $3";
const HAS_UNSENT: &str = "SELECT o.id AS id FROM grove_outbox o JOIN remote_agent_conversations c ON c.id = o.conversation_id \
     WHERE o.via IS NOT NULL AND o.sent_at IS NULL AND o.via = $1 AND c.platform_conversation_id = $2 LIMIT 1";
const TAKE: &str = "UPDATE grove_outbox SET sender = $2, sender_until = $4, tries = tries + 1 WHERE id = $1 AND sent_at IS NULL AND tries = $3";
const SENT: &str = "UPDATE grove_outbox SET sent_at = $2, sent_as = $3, unsendable = NULL, sender = NULL WHERE id = $1 AND sent_at IS NULL";
const LATER: &str =
    "UPDATE grove_outbox SET not_before = $2, unsendable = $3, sender = NULL WHERE id = $1 AND sent_at IS NULL";
const NEVER: &str =
    "UPDATE grove_outbox SET sent_at = $2, unsendable = $3, sender = NULL WHERE id = $1 AND sent_at IS NULL";
const DRAFT: &str = "UPDATE grove_inbox SET draft = $2 WHERE id = $1";

/// Something that was said and that its platform has not got yet: the first of its conversation.
#[derive(Clone, Debug)]
pub struct Unsent {
    pub id: MessageId,
    /// The platform's own id of the conversation.
    pub conversation: String,
    pub manner: Manner,
    pub text: String,
    /// The message that it belongs to.
    pub message: Option<MessageId>,
    pub tries: i64,
    pub sender: Option<Owner>,
    pub sender_until: Option<Moment>,
    /// The platform's own names for the answer as far as it has grown.
    pub draft: Option<String>,
    /// An agent was started for the message, so a draft may be there that nobody noted.
    pub had_agent: bool,
}

impl Store {
    /// What is to be sent through an adapter: of each conversation the first.
    pub async fn unsent(&self, via: &str, most: i64) -> Result<Vec<Unsent>, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(UNSENT).bind(via.to_owned()).bind(Moment::now().to_string()).bind(most);
            let read = |row| {
                let row = Reader { row, table: "grove_outbox" };
                Ok(Unsent {
                    id: row.parse("id")?,
                    conversation: row.text("conversation")?,
                    manner: row.parse("kind")?,
                    text: row.text("text")?,
                    message: row.parse_optional("inbox_id")?,
                    tries: row.number("tries")?,
                    sender: row.parse_optional("sender")?,
                    sender_until: row.parse_optional("sender_until")?,
                    draft: row.optional_text("draft")?,
                    had_agent: row.optional_text("agent_at")?.is_some(),
                })
            };
            query.fetch_all(&self.pool).await?.iter().map(read).collect()
        })
        .await
    }

    /// Whether anything is still to be sent to a conversation of a platform's, also later.
    pub async fn has_unsent(&self, via: &str, conversation: &str) -> Result<bool, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(HAS_UNSENT).bind(via.to_owned()).bind(conversation.to_owned());
            Ok(query.fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// Takes something to send it, if nobody else did since it was looked at.
    pub async fn take_unsent(&self, unsent: &Unsent, sender: &Owner, until: Moment) -> Result<bool, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(TAKE).bind(unsent.id.to_string()).bind(sender.to_string()).bind(unsent.tries);
            let query = query.bind(until.to_string());
            Ok(query.execute(&self.pool).await?.rows_affected() == 1)
        })
        .await
    }

    /// It is there, under these names of the platform's.
    pub async fn sent(&self, id: MessageId, sent_as: &str) -> Result<(), StoreError> {
        self.write_sending(SENT, id, Moment::now(), sent_as).await
    }

    /// It is tried again, not before then.
    pub async fn send_later(&self, id: MessageId, not_before: Moment, why: &str) -> Result<(), StoreError> {
        self.write_sending(LATER, id, not_before, why).await
    }

    /// It can never be sent; what comes behind it goes on.
    pub async fn send_never(&self, id: MessageId, why: &str) -> Result<(), StoreError> {
        self.write_sending(NEVER, id, Moment::now(), why).await
    }

    async fn write_sending(
        &self,
        statement: &'static str,
        id: MessageId,
        at: Moment,
        words: &str,
    ) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(statement).bind(id.to_string()).bind(at.to_string()).bind(words.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// The growing answer to a message has these names there.
    pub async fn keep_draft(&self, message: MessageId, sent_as: &str) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(DRAFT).bind(message.to_string()).bind(sent_as.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}
