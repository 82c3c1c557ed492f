//! `grove_outbox`: what was said to people.

use std::str::FromStr;

use grove_model::{ConversationId, MessageId, Moment};
use sqlx::any::{Any, AnyRow};

use crate::row::Reader;
use crate::{Message, Store, StoreError};

pub(crate) type Transaction<'a> = sqlx::Transaction<'a, Any>;

/// The columns of what was said, listed once.
macro_rules! said {
    ($rest:literal) => {
        concat!("SELECT id, kind, text, created_at, inbox_id FROM grove_outbox ", $rest)
    };
}

/// What came in by an adapter of this machine is read from here; everything else is sent.
const SAY: &str = "INSERT INTO grove_outbox (id, conversation_id, seq, inbox_id, kind, text, created_at, via) \
     VALUES ($1, $2, (SELECT COALESCE(MAX(seq), 0) + 1 FROM grove_outbox WHERE conversation_id = $2), $3, $4, $5, $6, \
       (SELECT i.via FROM grove_inbox i WHERE i.id = $3 AND i.via NOT IN ('web', 'cli', 'test')))";
const IS_SAID: &str = "SELECT id FROM grove_outbox WHERE id = $1";
const TOUCH: &str = "UPDATE remote_agent_conversations SET updated_at = $2 WHERE id = $1";
const SAID: &str = said!("WHERE conversation_id = $1 ORDER BY seq");
const SAID_TO: &str = said!("WHERE conversation_id = $1 AND inbox_id = $2 ORDER BY seq");
const FORGET_SAID: &str = "DELETE FROM grove_outbox WHERE conversation_id = $1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Words on the way.
    Notice,
    /// What a message is answered with.
    Answer,
}

impl FromStr for Manner {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Manner::Notice, Manner::Answer];
        all.into_iter()
            .find(|manner| manner.as_str() == word)
            .ok_or_else(|| format!("`{word}` is no manner of speaking"))
    }
}

impl Manner {
    pub fn as_str(self) -> &'static str {
        match self {
            Manner::Notice => "notice",
            Manner::Answer => "answer",
        }
    }
}

/// What was said to people.
#[derive(Clone, Debug)]
pub struct Said {
    pub manner: Manner,
    pub text: String,
    pub at: Moment,
    pub message: Option<MessageId>,
}

impl Store {
    /// What was said in a conversation, in order.
    pub async fn said(&self, conversation: ConversationId) -> Result<Vec<Said>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(SAID).bind(conversation.to_string()).fetch_all(&self.pool).await?;
            rows.iter().map(read_said).collect()
        })
        .await
    }

    /// What was said to one message.
    pub async fn said_to(&self, message: &Message) -> Result<Vec<Said>, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(SAID_TO).bind(message.conversation.to_string()).bind(message.id.to_string());
            query.fetch_all(&self.pool).await?.iter().map(read_said).collect()
        })
        .await
    }

    pub async fn forget_said(&self, conversation: ConversationId) -> Result<(), StoreError> {
        self.retry(|| async {
            sqlx::query(FORGET_SAID).bind(conversation.to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}

pub(crate) async fn touch(transaction: &mut Transaction<'_>, conversation: ConversationId) -> Result<(), StoreError> {
    let touch = sqlx::query(TOUCH).bind(conversation.to_string()).bind(Moment::now().to_string());
    touch.execute(&mut **transaction).await?;
    Ok(())
}

pub(crate) async fn say(
    transaction: &mut Transaction<'_>,
    id: MessageId,
    conversation: ConversationId,
    message: MessageId,
    manner: Manner,
    text: &str,
) -> Result<(), StoreError> {
    let known = sqlx::query(IS_SAID).bind(id.to_string()).fetch_optional(&mut **transaction).await?;
    if known.is_some() {
        return Ok(());
    }
    sqlx::query(SAY)
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

fn read_said(row: &AnyRow) -> Result<Said, StoreError> {
    let row = Reader { row, table: "grove_outbox" };
    Ok(Said {
        manner: row.parse("kind")?,
        text: row.text("text")?,
        at: row.parse("created_at")?,
        message: row.parse_optional("inbox_id")?,
    })
}
