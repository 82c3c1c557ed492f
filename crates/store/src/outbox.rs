//! `grove_outbox`: messages to people.

use grove_model::{Choice, ConversationId, MessageId, Moment, OutboxKind};
use sqlx::any::{Any, AnyRow};

use crate::row::RowReader;
use crate::{ConversationRef, InboxMessage, Store, StoreError};

pub(crate) type StoreTransaction<'a> = sqlx::Transaction<'a, Any>;

/// The columns of an outbox entry, listed once.
macro_rules! said {
    ($rest:literal) => {
        concat!("SELECT id, kind, text, created_at, inbox_id, choice FROM grove_outbox ", $rest)
    };
}

/// Answers to messages from an adapter of this machine are read from this table; all others are sent.
const INSERT_OUTBOX_ENTRY: &str = "INSERT INTO grove_outbox (id, conversation_id, seq, inbox_id, kind, text, created_at, choice, via) \
     VALUES ($1, $2, (SELECT COALESCE(MAX(seq), 0) + 1 FROM grove_outbox WHERE conversation_id = $2), $3, $4, $5, $6, $7, \
       (SELECT i.via FROM grove_inbox i WHERE i.id = $3 AND i.via NOT IN ('web', 'cli', 'test')))";
const OUTBOX_ENTRY_EXISTS: &str = "SELECT id FROM grove_outbox WHERE id = $1";
const TOUCH_CONVERSATION: &str = "UPDATE remote_agent_conversations SET updated_at = $2 WHERE id = $1";
const OUTBOX_OF_CONVERSATION: &str = said!("WHERE conversation_id = $1 ORDER BY seq");
const OUTBOX_OF_MESSAGE: &str = said!("WHERE conversation_id = $1 AND inbox_id = $2 ORDER BY seq");
const CHOICE_BY_ID: &str = "SELECT o.choice AS choice, c.platform_type AS platform_type, \
     c.platform_conversation_id AS platform_conversation_id FROM grove_outbox o \
     JOIN remote_agent_conversations c ON c.id = o.conversation_id WHERE o.id = $1 AND o.choice IS NOT NULL";
const DELETE_OUTBOX_ENTRIES: &str = "DELETE FROM grove_outbox WHERE conversation_id = $1";

/// A message to people.
#[derive(Clone, Debug)]
pub struct OutboxEntry {
    pub manner: OutboxKind,
    pub text: String,
    pub at: Moment,
    pub message: Option<MessageId>,
    /// The question that the text asks, if it has a fixed set of answers.
    pub choice: Option<Choice>,
}

/// A message to people that is to be written. Its id is chosen before the first attempt: a retry after a lost
/// answer recognizes its own row by it.
pub(crate) struct NewOutboxEntry<'a> {
    id: MessageId,
    manner: OutboxKind,
    text: &'a str,
    choice: Option<&'a Choice>,
}

impl<'a> NewOutboxEntry<'a> {
    pub fn new(manner: OutboxKind, text: &'a str) -> Self {
        Self { id: MessageId::new(), manner, text, choice: None }
    }

    pub fn with_choice(self, choice: Option<&'a Choice>) -> Self {
        Self { choice, ..self }
    }
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

    /// Returns the question that an entry asks, and its conversation.
    pub async fn find_choice(&self, entry: MessageId) -> Result<Option<(ConversationRef, Choice)>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(CHOICE_BY_ID).bind(entry.to_string()).fetch_optional(&self.pool).await?;
            let Some(row) = row else { return Ok(None) };
            let row = RowReader { row: &row, table: "grove_outbox" };
            let conversation = ConversationRef {
                platform: row.required_text("platform_type")?,
                id: row.required_text("platform_conversation_id")?,
            };
            Ok(read_choice(&row)?.map(|choice| (conversation, choice)))
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
    conversation: ConversationId,
    message: MessageId,
    entry: &NewOutboxEntry<'_>,
) -> Result<(), StoreError> {
    let choice = entry.choice.map(serde_json::to_string).transpose();
    let choice = choice.map_err(|error| StoreError::Other(error.to_string()))?;
    let known = sqlx::query(OUTBOX_ENTRY_EXISTS).bind(entry.id.to_string()).fetch_optional(&mut **transaction).await?;
    if known.is_some() {
        return Ok(());
    }
    sqlx::query(INSERT_OUTBOX_ENTRY)
        .bind(entry.id.to_string())
        .bind(conversation.to_string())
        .bind(message.to_string())
        .bind(entry.manner.as_str())
        .bind(entry.text.to_owned())
        .bind(Moment::now().to_string())
        .bind(choice)
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
        choice: read_choice(&row)?,
    })
}

/// Reads the question of an entry.
pub(crate) fn read_choice(row: &RowReader<'_>) -> Result<Option<Choice>, StoreError> {
    let choice = row.optional_text("choice")?.map(|choice| serde_json::from_str(&choice)).transpose();
    choice.map_err(|error| row.invalid_value_error("choice", &error))
}
