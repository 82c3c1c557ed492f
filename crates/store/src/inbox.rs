//! `grove_inbox`: incoming messages, in the order of their conversation.
//!
//! A message is in the store before its sender is told that it was accepted.

use grove_model::{
    CodebaseId, ConversationId, EnvironmentId, IncomingEvent, IncomingPayload, MessageId, MessageStatus, Moment,
};
use sqlx::any::AnyRow;

use crate::conversations::CONVERSATIONS_TABLE;
use crate::row::RowReader;
use crate::{ConversationRef, Store, StoreError};

/// Also makes two messages of one conversation wait for each other. A new conversation begins with the named
/// codebase, and an existing one with neither codebase nor folder gets it. Otherwise a new thread begins with
/// the codebase and agent of its channel. The first title stays.
const UPSERT_CONVERSATION: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, parent_conversation_id, codebase_id, ai_assistant_type, \
      last_activity_at, created_at, updated_at, title) \
     VALUES ($1, $2, $3, $4, \
       COALESCE($6, (SELECT p.codebase_id FROM remote_agent_conversations p WHERE p.platform_type = $2 AND p.platform_conversation_id = $4)), \
       (SELECT p.ai_assistant_type FROM remote_agent_conversations p WHERE p.platform_type = $2 AND p.platform_conversation_id = $4), \
       $5, $5, $5, $7) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET last_activity_at = excluded.last_activity_at, updated_at = excluded.updated_at, \
       title = COALESCE(remote_agent_conversations.title, excluded.title), \
       codebase_id = CASE WHEN remote_agent_conversations.cwd IS NULL \
         THEN COALESCE(remote_agent_conversations.codebase_id, $6) ELSE remote_agent_conversations.codebase_id END \
     RETURNING id";
const MESSAGE_BY_DELIVERY: &str = "SELECT id FROM grove_inbox WHERE delivery = $1";
const MESSAGE_BY_ID_OR_DELIVERY: &str = "SELECT id, conversation_id FROM grove_inbox WHERE id = $1 OR delivery = $2";
const INSERT_MESSAGE: &str = "INSERT INTO grove_inbox \
     (id, conversation_id, seq, delivery, user_name, event, status, overtakes, received_at, via) \
     VALUES ($1, $2, (SELECT COALESCE(MAX(seq), 0) + 1 FROM grove_inbox WHERE conversation_id = $2), $3, $4, $5, 'waiting', $6, $7, $8)";

/// The columns of a message, listed once.
macro_rules! messages {
    ($rest:literal) => {
        concat!(
            "SELECT id, conversation_id, seq, user_name, event, status, tries, agent_at, received_at, via FROM grove_inbox ",
            $rest
        )
    };
}
pub(crate) use messages;

// The queries of every dispatch must not read through all messages ever received. They repeat the condition
// of the index `open_messages` word for word, or SQLite does not see that it may use the index. They do not
// order by id, or SQLite would rather walk along the ids; the rows are sorted in Rust.
pub(crate) const OVERTAKING_MESSAGES: &str =
    messages!("WHERE status IN ('waiting', 'running') AND status = 'waiting' AND overtakes = 1");
const RETRYABLE_MESSAGES: &str = messages!(
    "WHERE conversation_id = $1 AND seq < $2 AND status IN ('interrupted', 'failed') ORDER BY seq DESC LIMIT 50"
);
pub(crate) const MESSAGE_TO_STOP: &str = "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running' AND stop = 1";
/// A message is kept until an agent has run since: from then on, other things were said.
const KEPT_MESSAGES: &str = messages!(
    "WHERE conversation_id = $1 AND status = 'asked' AND seq < $2 AND NOT EXISTS (SELECT 1 FROM grove_inbox later \
       WHERE later.conversation_id = $1 AND later.seq > grove_inbox.seq AND later.seq < $2 AND later.agent_at IS NOT NULL) \
     ORDER BY seq"
);
const RECENT_EXCHANGES: &str = "SELECT i.id AS id, i.event AS event, o.text AS answer FROM grove_inbox i \
     LEFT JOIN grove_outbox o ON o.inbox_id = i.id AND o.kind = 'answer' \
     WHERE i.conversation_id = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3";
const CONVERSATION_MESSAGES: &str = messages!("WHERE conversation_id = $1 ORDER BY seq");
const MESSAGE_BY_ID: &str = messages!("WHERE id = $1");
const FIRST_CONVERSATION_MESSAGE: &str = messages!("WHERE conversation_id = $1 ORDER BY seq LIMIT 1");
pub(crate) const OPEN_MESSAGE_OF_CONVERSATION: &str =
    "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') LIMIT 1";
pub(crate) const OPEN_MESSAGE_COUNTS: &str =
    "SELECT status, COUNT(*) AS many FROM grove_inbox WHERE status IN ('waiting', 'running') GROUP BY status";
const BUSY_CONVERSATIONS: &str = "SELECT DISTINCT c.id AS id, c.platform_type AS platform_type, c.platform_conversation_id AS platform_conversation_id \
     FROM remote_agent_conversations c JOIN grove_inbox i ON i.conversation_id = c.id \
     WHERE c.isolation_env_id = $1 AND i.status IN ('waiting', 'running')";
pub(crate) const QUEUE_HEADS: &str = "SELECT i.id AS id, i.conversation_id AS conversation_id, i.told AS told FROM grove_inbox i \
     JOIN remote_agent_conversations c ON c.id = i.conversation_id \
     WHERE i.status IN ('waiting', 'running') AND i.status = 'waiting' AND i.overtakes = 0 AND c.turn_owner IS NULL \
       AND NOT EXISTS (SELECT 1 FROM grove_inbox o WHERE o.conversation_id = i.conversation_id AND o.seq < i.seq \
          AND o.status IN ('waiting', 'running'))";

/// The outcome of accepting an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedMessage {
    pub conversation: ConversationId,
    pub message: MessageId,
    /// The same delivery was accepted before.
    pub repeated: bool,
}

/// An incoming message.
#[derive(Clone, Debug)]
pub struct InboxMessage {
    pub id: MessageId,
    pub conversation: ConversationId,
    pub seq: i64,
    pub user: Option<String>,
    pub event: IncomingPayload,
    pub status: MessageStatus,
    pub tries: i64,
    /// The time at which an agent was started for it.
    pub agent_at: Option<Moment>,
    pub received_at: Moment,
    /// The adapter that received it.
    pub via: String,
}

/// A message of a person and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageExchange {
    pub text: String,
    pub answer: Option<String>,
}

/// A message that waits for a free slot.
#[derive(Clone, Copy, Debug)]
pub struct QueuedMessage {
    pub message: MessageId,
    pub conversation: ConversationId,
    /// The sender was told that the message waits.
    pub told: bool,
}

impl Store {
    /// Returns the exchanges of a conversation before a message, oldest first; of at most `most` messages.
    pub async fn recent_exchanges(&self, before: &InboxMessage, most: i64) -> Result<Vec<MessageExchange>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(RECENT_EXCHANGES).bind(before.conversation.to_string()).bind(before.seq).bind(most);
            let mut found = Vec::new();
            for row in query.fetch_all(&self.pool).await?.iter().rev() {
                let row = RowReader { row, table: INBOX_TABLE };
                let event = serde_json::from_str(&row.required_text("event")?)
                    .map_err(|error| row.invalid_value_error("event", &error))?;
                if let IncomingPayload::Message { text, .. } = event {
                    found.push(MessageExchange { text, answer: row.optional_text("answer")? });
                }
            }
            Ok(found)
        })
        .await
    }

    /// Accepts an incoming event. If its conversation has neither codebase nor folder, it gets this codebase;
    /// if it has no title, it gets this one.
    pub async fn accept_about(
        &self,
        incoming: &IncomingEvent,
        overtakes: bool,
        codebase: Option<CodebaseId>,
        title: Option<&str>,
    ) -> Result<AcceptedMessage, StoreError> {
        let (message, fresh) = (MessageId::new(), ConversationId::new());
        let event = serde_json::to_string(&incoming.event).map_err(|error| StoreError::Other(error.to_string()))?;
        self.retry_while_disconnected(|| async {
            let now = Moment::now().to_string();
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let row = sqlx::query(UPSERT_CONVERSATION)
                .bind(fresh.to_string())
                .bind(incoming.platform.clone())
                .bind(incoming.conversation.clone())
                .bind(incoming.parent.clone())
                .bind(now.clone())
                .bind(codebase.map(|codebase| codebase.to_string()))
                .bind(title.map(str::to_owned))
                .fetch_one(&mut *transaction)
                .await?;
            let conversation: ConversationId = RowReader { row: &row, table: CONVERSATIONS_TABLE }.parse("id")?;
            // The same delivery, or this call itself after its answer was lost.
            let known =
                sqlx::query(MESSAGE_BY_ID_OR_DELIVERY).bind(message.to_string()).bind(incoming.delivery.clone());
            if let Some(row) = known.fetch_optional(&mut *transaction).await? {
                let row = RowReader { row: &row, table: INBOX_TABLE };
                let known: MessageId = row.parse("id")?;
                let conversation = row.parse("conversation_id")?;
                return Ok(AcceptedMessage { conversation, message: known, repeated: known != message });
            }
            sqlx::query(INSERT_MESSAGE)
                .bind(message.to_string())
                .bind(conversation.to_string())
                .bind(incoming.delivery.clone())
                .bind(incoming.user.clone())
                .bind(event.clone())
                .bind(i64::from(overtakes))
                .bind(now)
                .bind(incoming.via.clone())
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            Ok(AcceptedMessage { conversation, message, repeated: false })
        })
        .await
    }

    /// Tells whether a delivery was accepted before.
    pub async fn was_heard(&self, delivery: &str) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(MESSAGE_BY_DELIVERY).bind(delivery.to_owned());
            Ok(query.fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// Returns the messages that do not wait for a turn.
    pub async fn overtaking_messages(&self) -> Result<Vec<InboxMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(OVERTAKING_MESSAGES).fetch_all(&self.pool).await?;
            let readable = |row| read_message(row).inspect_err(|error| tracing::error!("passed over: {error}")).ok();
            let mut found: Vec<InboxMessage> = rows.iter().filter_map(readable).collect();
            found.sort_by_key(|message| message.id);
            Ok(found)
        })
        .await
    }

    /// Tells whether a user asked the running message of a conversation to stop.
    pub async fn wants_stop(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        self.is_any(MESSAGE_TO_STOP, conversation).await
    }

    async fn is_any(&self, statement: &'static str, conversation: ConversationId) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            Ok(sqlx::query(statement).bind(conversation.to_string()).fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// Returns the messages that wait only for a free slot, in their order.
    pub async fn waiting_for_a_place(&self) -> Result<Vec<QueuedMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(QUEUE_HEADS).fetch_all(&self.pool).await?;
            let queued = |row| {
                let row = RowReader { row, table: INBOX_TABLE };
                let told = row.required_number("told")? != 0;
                Ok(QueuedMessage { message: row.parse("id")?, conversation: row.parse("conversation_id")?, told })
            };
            let mut found = rows.iter().map(queued).collect::<Result<Vec<_>, StoreError>>()?;
            found.sort_by_key(|queued| queued.message);
            Ok(found)
        })
        .await
    }

    /// Returns the messages before `seq` that were interrupted or failed, the last one first.
    pub async fn cut_short(&self, conversation: ConversationId, before: i64) -> Result<Vec<InboxMessage>, StoreError> {
        self.messages_before(RETRYABLE_MESSAGES, conversation, before).await
    }

    /// Returns the messages before `seq` that wait for the answer to a question, in their order.
    pub async fn kept_messages(
        &self,
        conversation: ConversationId,
        before: i64,
    ) -> Result<Vec<InboxMessage>, StoreError> {
        self.messages_before(KEPT_MESSAGES, conversation, before).await
    }

    async fn messages_before(
        &self,
        statement: &'static str,
        conversation: ConversationId,
        before: i64,
    ) -> Result<Vec<InboxMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(conversation.to_string()).bind(before);
            query.fetch_all(&self.pool).await?.iter().map(read_message).collect()
        })
        .await
    }

    /// Returns one message, whatever its status.
    pub async fn find_message(&self, id: MessageId) -> Result<Option<InboxMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(MESSAGE_BY_ID).bind(id.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_message).transpose()
        })
        .await
    }

    /// Returns the messages that people sent in a conversation.
    pub async fn conversation_messages(&self, conversation: ConversationId) -> Result<Vec<InboxMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(CONVERSATION_MESSAGES).bind(conversation.to_string()).fetch_all(&self.pool).await?;
            rows.iter().map(read_message).collect()
        })
        .await
    }

    /// Returns the first message of a conversation.
    pub async fn first_heard(&self, conversation: ConversationId) -> Result<Option<InboxMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(FIRST_CONVERSATION_MESSAGE)
                .bind(conversation.to_string())
                .fetch_optional(&self.pool)
                .await?;
            row.as_ref().map(read_message).transpose()
        })
        .await
    }

    /// Tells whether a conversation has a waiting or running message.
    pub async fn is_busy(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        self.is_any(OPEN_MESSAGE_OF_CONVERSATION, conversation).await
    }

    /// Returns the conversations of an environment that have a running or waiting message.
    pub async fn busy_conversations(&self, environment: EnvironmentId) -> Result<Vec<ConversationRef>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(BUSY_CONVERSATIONS).bind(environment.to_string()).fetch_all(&self.pool).await?;
            Ok(crate::conversations::read_bound(&rows)?.into_iter().map(|(_, conversation)| conversation).collect())
        })
        .await
    }

    /// Returns the number of running messages and the number of waiting ones.
    pub async fn queue_counts(&self) -> Result<(i64, i64), StoreError> {
        self.retry_while_disconnected(|| async {
            let (mut running, mut waiting) = (0, 0);
            for row in &sqlx::query(OPEN_MESSAGE_COUNTS).fetch_all(&self.pool).await? {
                let row = RowReader { row, table: INBOX_TABLE };
                match row.parse("status")? {
                    MessageStatus::Running => running = row.required_number("many")?,
                    MessageStatus::Waiting => waiting = row.required_number("many")?,
                    ended => return Err(row.invalid_value_error("status", &ended)),
                }
            }
            Ok((running, waiting))
        })
        .await
    }
}

pub(crate) const INBOX_TABLE: &str = "grove_inbox";

pub(crate) fn read_message(row: &AnyRow) -> Result<InboxMessage, StoreError> {
    let row = RowReader { row, table: INBOX_TABLE };
    let event =
        serde_json::from_str(&row.required_text("event")?).map_err(|error| row.invalid_value_error("event", &error))?;
    Ok(InboxMessage {
        id: row.parse("id")?,
        conversation: row.parse("conversation_id")?,
        seq: row.required_number("seq")?,
        user: row.optional_text("user_name")?,
        event,
        status: row.parse("status")?,
        tries: row.required_number("tries")?,
        agent_at: row.parse_optional("agent_at")?,
        received_at: row.parse("received_at")?,
        via: row.required_text("via")?,
    })
}
