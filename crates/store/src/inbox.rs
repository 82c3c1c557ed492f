//! `grove_inbox`: what came in, in the order of its conversation.
//!
//! A message is in the store before anybody is told that it was taken.

use grove_model::{CodebaseId, ConversationId, EnvironmentId, Event, Incoming, MessageId, Moment};
use sqlx::any::AnyRow;

use crate::conversations::CONVERSATIONS;
use crate::row::Reader;
use crate::{ConversationRef, Store, StoreError};

/// Also what makes two messages of one conversation wait for each other. A new conversation begins
/// with the codebase that was named, and one that has neither codebase nor folder gets it; a new thread otherwise begins with
/// its channel's codebase and agent.
const ENTER: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, parent_conversation_id, codebase_id, ai_assistant_type, \
      last_activity_at, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, \
       COALESCE($6, (SELECT p.codebase_id FROM remote_agent_conversations p WHERE p.platform_type = $2 AND p.platform_conversation_id = $4)), \
       (SELECT p.ai_assistant_type FROM remote_agent_conversations p WHERE p.platform_type = $2 AND p.platform_conversation_id = $4), \
       $5, $5, $5) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET last_activity_at = excluded.last_activity_at, updated_at = excluded.updated_at, \
       codebase_id = CASE WHEN remote_agent_conversations.cwd IS NULL \
         THEN COALESCE(remote_agent_conversations.codebase_id, $6) ELSE remote_agent_conversations.codebase_id END \
     RETURNING id";
const WAS_HEARD: &str = "SELECT id FROM grove_inbox WHERE delivery = $1";
const KNOWN: &str = "SELECT id, conversation_id FROM grove_inbox WHERE id = $1 OR delivery = $2";
const RECEIVE: &str = "INSERT INTO grove_inbox \
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

// What is asked at every hand-out must not read through all that was ever said. The condition of the
// index `open_messages` stands there word for word, or SQLite does not see that it may use it; and
// nothing is ordered by id, or it would rather walk along the ids. Sorting is done here.
pub(crate) const OVERTAKING: &str =
    messages!("WHERE status IN ('waiting', 'running') AND status = 'waiting' AND overtakes = 1");
const AGAIN: &str = messages!(
    "WHERE conversation_id = $1 AND seq < $2 AND status IN ('interrupted', 'failed') ORDER BY seq DESC LIMIT 50"
);
pub(crate) const WANTS_STOP: &str = "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running' AND stop = 1";
const LATELY: &str = "SELECT i.id AS id, i.event AS event, o.text AS answer FROM grove_inbox i \
     LEFT JOIN grove_outbox o ON o.inbox_id = i.id AND o.kind = 'answer' \
     WHERE i.conversation_id = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3";
const HEARD: &str = messages!("WHERE conversation_id = $1 ORDER BY seq");
const MESSAGE: &str = messages!("WHERE id = $1");
const FIRST_HEARD: &str = messages!("WHERE conversation_id = $1 ORDER BY seq LIMIT 1");
pub(crate) const BUSY: &str =
    "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') LIMIT 1";
pub(crate) const COUNTS: &str =
    "SELECT status, COUNT(*) AS many FROM grove_inbox WHERE status IN ('waiting', 'running') GROUP BY status";
const BUSY_IN: &str = "SELECT DISTINCT c.id AS id, c.platform_type AS platform_type, c.platform_conversation_id AS platform_conversation_id \
     FROM remote_agent_conversations c JOIN grove_inbox i ON i.conversation_id = c.id \
     WHERE c.isolation_env_id = $1 AND i.status IN ('waiting', 'running')";
pub(crate) const HEADS: &str = "SELECT i.id AS id, i.conversation_id AS conversation_id, i.told AS told FROM grove_inbox i \
     JOIN remote_agent_conversations c ON c.id = i.conversation_id \
     WHERE i.status IN ('waiting', 'running') AND i.status = 'waiting' AND i.overtakes = 0 AND c.turn_owner IS NULL \
       AND NOT EXISTS (SELECT 1 FROM grove_inbox o WHERE o.conversation_id = i.conversation_id AND o.seq < i.seq \
          AND o.status IN ('waiting', 'running'))";

/// What became of something that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub conversation: ConversationId,
    pub message: MessageId,
    /// The same delivery was here before.
    pub repeated: bool,
}

/// Something that came in.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: MessageId,
    pub conversation: ConversationId,
    pub seq: i64,
    pub user: Option<String>,
    pub event: Event,
    pub status: String,
    pub tries: i64,
    /// When an agent was started for it.
    pub agent_at: Option<Moment>,
    pub received_at: Moment,
    /// The adapter that took it.
    pub via: String,
}

/// What somebody said, and what was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub text: String,
    pub answer: Option<String>,
}

/// A message that waits for a free place.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub message: MessageId,
    pub conversation: ConversationId,
    /// Whoever waits was told.
    pub told: bool,
}

impl Store {
    /// What was said in a conversation before a message, the oldest first; of as many messages.
    pub async fn lately(&self, before: &Message, most: i64) -> Result<Vec<Exchange>, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(LATELY).bind(before.conversation.to_string()).bind(before.seq).bind(most);
            let mut found = Vec::new();
            for row in query.fetch_all(&self.pool).await?.iter().rev() {
                let row = Reader { row, table: INBOX };
                let event = serde_json::from_str(&row.text("event")?).map_err(|error| row.nonsense("event", &error))?;
                if let Event::Message { text, .. } = event {
                    found.push(Exchange { text, answer: row.optional_text("answer")? });
                }
            }
            Ok(found)
        })
        .await
    }

    /// The same; if its conversation has no codebase, it is about this one.
    pub async fn accept_about(
        &self,
        incoming: &Incoming,
        overtakes: bool,
        codebase: Option<CodebaseId>,
    ) -> Result<Accepted, StoreError> {
        let (message, fresh) = (MessageId::new(), ConversationId::new());
        let event = serde_json::to_string(&incoming.event).map_err(|error| StoreError::Other(error.to_string()))?;
        self.retry(|| async {
            let now = Moment::now().to_string();
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let row = sqlx::query(ENTER)
                .bind(fresh.to_string())
                .bind(incoming.platform.clone())
                .bind(incoming.conversation.clone())
                .bind(incoming.parent.clone())
                .bind(now.clone())
                .bind(codebase.map(|codebase| codebase.to_string()))
                .fetch_one(&mut *transaction)
                .await?;
            let conversation: ConversationId = Reader { row: &row, table: CONVERSATIONS }.parse("id")?;
            // The same delivery, or this call itself after its answer was lost.
            let known = sqlx::query(KNOWN).bind(message.to_string()).bind(incoming.delivery.clone());
            if let Some(row) = known.fetch_optional(&mut *transaction).await? {
                let row = Reader { row: &row, table: INBOX };
                let known: MessageId = row.parse("id")?;
                let conversation = row.parse("conversation_id")?;
                return Ok(Accepted { conversation, message: known, repeated: known != message });
            }
            sqlx::query(RECEIVE)
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
            Ok(Accepted { conversation, message, repeated: false })
        })
        .await
    }

    /// Whether a delivery was taken before.
    pub async fn was_heard(&self, delivery: &str) -> Result<bool, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(WAS_HEARD).bind(delivery.to_owned());
            Ok(query.fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// Messages that do not wait for a turn.
    pub async fn overtaking(&self) -> Result<Vec<Message>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(OVERTAKING).fetch_all(&self.pool).await?;
            let readable = |row| read_message(row).inspect_err(|error| tracing::error!("passed over: {error}")).ok();
            let mut found: Vec<Message> = rows.iter().filter_map(readable).collect();
            found.sort_by_key(|message| message.id);
            Ok(found)
        })
        .await
    }

    /// Whether somebody wants what runs in a conversation to stop.
    pub async fn wants_stop(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        self.is_any(WANTS_STOP, conversation).await
    }

    async fn is_any(&self, statement: &'static str, conversation: ConversationId) -> Result<bool, StoreError> {
        self.retry(|| async {
            Ok(sqlx::query(statement).bind(conversation.to_string()).fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// The messages that wait for a free place only, in their order.
    pub async fn waiting_for_a_place(&self) -> Result<Vec<Queued>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(HEADS).fetch_all(&self.pool).await?;
            let queued = |row| {
                let row = Reader { row, table: INBOX };
                let told = row.number("told")? != 0;
                Ok(Queued { message: row.parse("id")?, conversation: row.parse("conversation_id")?, told })
            };
            let mut found = rows.iter().map(queued).collect::<Result<Vec<_>, StoreError>>()?;
            found.sort_by_key(|queued| queued.message);
            Ok(found)
        })
        .await
    }

    /// The messages before `seq` that were cut short or set aside, the last one first.
    pub async fn cut_short(&self, conversation: ConversationId, before: i64) -> Result<Vec<Message>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(AGAIN).bind(conversation.to_string()).bind(before).fetch_all(&self.pool).await?;
            rows.iter().map(read_message).collect()
        })
        .await
    }

    /// One message, however it stands.
    pub async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(MESSAGE).bind(id.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_message).transpose()
        })
        .await
    }

    /// What people said in a conversation.
    pub async fn heard(&self, conversation: ConversationId) -> Result<Vec<Message>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(HEARD).bind(conversation.to_string()).fetch_all(&self.pool).await?;
            rows.iter().map(read_message).collect()
        })
        .await
    }

    /// What a conversation began with.
    pub async fn first_heard(&self, conversation: ConversationId) -> Result<Option<Message>, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(FIRST_HEARD).bind(conversation.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_message).transpose()
        })
        .await
    }

    /// Whether anything of a conversation waits or runs.
    pub async fn is_busy(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        self.is_any(BUSY, conversation).await
    }

    /// The conversations of an environment that have a run or a waiting message.
    pub async fn busy_conversations(&self, environment: EnvironmentId) -> Result<Vec<ConversationRef>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(BUSY_IN).bind(environment.to_string()).fetch_all(&self.pool).await?;
            Ok(crate::conversations::read_bound(&rows)?.into_iter().map(|(_, conversation)| conversation).collect())
        })
        .await
    }

    /// How many messages run, and how many wait.
    pub async fn queue(&self) -> Result<(i64, i64), StoreError> {
        self.retry(|| async {
            let (mut running, mut waiting) = (0, 0);
            for row in &sqlx::query(COUNTS).fetch_all(&self.pool).await? {
                let row = Reader { row, table: INBOX };
                match row.text("status")?.as_str() {
                    "running" => running = row.number("many")?,
                    _ => waiting = row.number("many")?,
                }
            }
            Ok((running, waiting))
        })
        .await
    }
}

pub(crate) const INBOX: &str = "grove_inbox";

pub(crate) fn read_message(row: &AnyRow) -> Result<Message, StoreError> {
    let row = Reader { row, table: INBOX };
    let event = serde_json::from_str(&row.text("event")?).map_err(|error| row.nonsense("event", &error))?;
    Ok(Message {
        id: row.parse("id")?,
        conversation: row.parse("conversation_id")?,
        seq: row.number("seq")?,
        user: row.optional_text("user_name")?,
        event,
        status: row.text("status")?,
        tries: row.number("tries")?,
        agent_at: row.parse_optional("agent_at")?,
        received_at: row.parse("received_at")?,
        via: row.text("via")?,
    })
}
