//! `grove_outbox`: messages to people.

use std::str::FromStr;

use grove_model::{ConversationId, MessageId, Moment};
use sqlx::any::{Any, AnyRow};

use crate::row::RowReader;
use crate::{InboxMessage, Store, StoreError};

pub(crate) type StoreTransaction<'a> = sqlx::Transaction<'a, Any>;

/// The columns of an outbox entry, listed once.
macro_rules! said {
    ($rest:literal) => {
        concat!("SELECT id, kind, text, created_at, inbox_id FROM grove_outbox ", $rest)
    };
}

/// Answers to messages from an adapter of this machine are read from this table; all others are sent.
const INSERT_OUTBOX_ENTRY: &str = "INSERT INTO grove_outbox (id, conversation_id, seq, inbox_id, kind, text, created_at, via) \
     VALUES ($1, $2, (SELECT COALESCE(MAX(seq), 0) + 1 FROM grove_outbox WHERE conversation_id = $2), $3, $4, $5, $6, \
       (SELECT i.via FROM grove_inbox i WHERE i.id = $3 AND i.via NOT IN ('web', 'cli', 'test')))";
const OUTBOX_ENTRY_EXISTS: &str = "SELECT id FROM grove_outbox WHERE id = $1";
const TOUCH_CONVERSATION: &str = "UPDATE remote_agent_conversations SET updated_at = $2 WHERE id = $1";
const OUTBOX_OF_CONVERSATION: &str = said!("WHERE conversation_id = $1 ORDER BY seq");
const OUTBOX_OF_MESSAGE: &str = said!("WHERE conversation_id = $1 AND inbox_id = $2 ORDER BY seq");
const DELETE_OUTBOX_ENTRIES: &str = "DELETE FROM grove_outbox WHERE conversation_id = $1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxKind {
    /// A message during the work, before the answer.
    Notice,
    /// The answer to a message.
    Answer,
}

impl FromStr for OutboxKind {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let all = [OutboxKind::Notice, OutboxKind::Answer];
        all.into_iter()
            .find(|manner| manner.as_str() == word)
            .ok_or_else(|| format!("`{word}` is no manner of speaking"))
    }
}

impl OutboxKind {
    pub fn as_str(self) -> &'static str {
        match self {
            OutboxKind::Notice => "notice",
            OutboxKind::Answer => "answer",
        }
    }
}

/// A message to people.
#[derive(Clone, Debug)]
pub struct OutboxEntry {
    pub manner: OutboxKind,
    pub text: String,
    pub at: Moment,
    pub message: Option<MessageId>,
}

impl Store {
    /// Returns the entries of a conversation, in order.
    pub async fn outbox_entries(&self, conversation: ConversationId) -> Result<Vec<OutboxEntry>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(OUTBOX_OF_CONVERSATION).bind(conversation.to_string()).fetch_all(&self.pool).await?;
            rows.iter().map(read_said).collect()
        })
        .await
    }

    /// Returns the entries that belong to one message.
    pub async fn said_to(&self, message: &InboxMessage) -> Result<Vec<OutboxEntry>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query =
                sqlx::query(OUTBOX_OF_MESSAGE).bind(message.conversation.to_string()).bind(message.id.to_string());
            query.fetch_all(&self.pool).await?.iter().map(read_said).collect()
        })
        .await
    }

    pub async fn forget_said(&self, conversation: ConversationId) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(DELETE_OUTBOX_ENTRIES).bind(conversation.to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}

pub(crate) async fn touch_conversation(
    transaction: &mut StoreTransaction<'_>,
    conversation: ConversationId,
) -> Result<(), StoreError> {
    let touch = sqlx::query(TOUCH_CONVERSATION).bind(conversation.to_string()).bind(Moment::now().to_string());
    touch.execute(&mut **transaction).await?;
    Ok(())
}

pub(crate) async fn insert_outbox_entry(
    transaction: &mut StoreTransaction<'_>,
    id: MessageId,
    conversation: ConversationId,
    message: MessageId,
    manner: OutboxKind,
    text: &str,
) -> Result<(), StoreError> {
    let known = sqlx::query(OUTBOX_ENTRY_EXISTS).bind(id.to_string()).fetch_optional(&mut **transaction).await?;
    if known.is_some() {
        return Ok(());
    }
    sqlx::query(INSERT_OUTBOX_ENTRY)
        .bind(id.to_string())
        .bind(conversation.to_string())
        .bind(message.to_string())
        .bind(manner.as_str())
        .bind(text.to_owned())
        .bind(Moment::now().to_string())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

fn read_said(row: &AnyRow) -> Result<OutboxEntry, StoreError> {
    let row = RowReader { row, table: "grove_outbox" };
    Ok(OutboxEntry {
        manner: row.parse("kind")?,
        text: row.required_text("text")?,
        at: row.parse("created_at")?,
        message: row.parse_optional("inbox_id")?,
    })
}
