//! `grove_inbox` and `grove_outbox`: what came in, what goes out, and whose turn it is.
//!
//! A message is in the store before anybody is told that it was taken. Whoever works on a
//! conversation holds its turn, and everything that is written in a turn is written only while the
//! turn is still theirs: the answer and the end of a message are one transaction, so that every
//! message has one answer however often a process dies.

use grove_model::{CodebaseId, ConversationId, EnvironmentId, Event, Incoming, MessageId, Moment, Owner};
use sqlx::any::{Any, AnyRow};

use crate::row::Reader;
use crate::{ConversationRef, Store, StoreError};

type Transaction<'a> = sqlx::Transaction<'a, Any>;

/// Also what makes two messages of one conversation wait for each other. A new conversation begins
/// with the codebase that was named; a new thread otherwise with its channel's codebase and agent.
const ENTER: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, parent_conversation_id, codebase_id, ai_assistant_type, \
      last_activity_at, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, \
       COALESCE($6, (SELECT p.codebase_id FROM remote_agent_conversations p WHERE p.platform_type = $2 AND p.platform_conversation_id = $4)), \
       (SELECT p.ai_assistant_type FROM remote_agent_conversations p WHERE p.platform_type = $2 AND p.platform_conversation_id = $4), \
       $5, $5, $5) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET last_activity_at = excluded.last_activity_at, updated_at = excluded.updated_at RETURNING id";
const KNOWN: &str = "SELECT id, conversation_id FROM grove_inbox WHERE id = $1 OR delivery = $2";
const RECEIVE: &str = "INSERT INTO grove_inbox \
     (id, conversation_id, seq, delivery, user_name, event, status, overtakes, received_at, via) \
     VALUES ($1, $2, (SELECT COALESCE(MAX(seq), 0) + 1 FROM grove_inbox WHERE conversation_id = $2), $3, $4, $5, 'waiting', $6, $7, $8)";

const WAITING: &str = "SELECT c.id AS id, c.turn_owner AS turn_owner, c.turn_until AS turn_until, c.turn_fence AS turn_fence, \
     MIN(i.id) AS first FROM grove_inbox i JOIN remote_agent_conversations c ON c.id = i.conversation_id \
     WHERE i.status IN ('waiting', 'running') AND i.overtakes = 0 \
     GROUP BY c.id, c.turn_owner, c.turn_until, c.turn_fence ORDER BY first";
const TAKE: &str = "UPDATE remote_agent_conversations SET turn_owner = $4, turn_until = $5, turn_fence = turn_fence + 1 \
     WHERE id = $1 AND turn_fence = $2 AND COALESCE(turn_owner, '') = $3";
const RENEW: &str = "UPDATE remote_agent_conversations SET turn_until = $4 \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";
const RELEASE: &str = "UPDATE remote_agent_conversations SET turn_owner = NULL, turn_until = NULL \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";
const IS_OURS: &str = "UPDATE remote_agent_conversations SET turn_fence = turn_fence \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";
/// The turn is still ours, and stays so until the transaction ends.
const HELD: &str = "UPDATE remote_agent_conversations SET updated_at = $4 \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";

macro_rules! messages {
    ($rest:literal) => {
        concat!(
            "SELECT id, conversation_id, seq, user_name, event, status, tries, agent_at, received_at, via FROM grove_inbox ",
            $rest
        )
    };
}

const NEXT: &str =
    messages!("WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND overtakes = 0 ORDER BY seq LIMIT 1");
// What is asked at every hand-out must not read through all that was ever said. The condition of the
// index `open_messages` stands there word for word, or SQLite does not see that it may use it; and
// nothing is ordered by id, or it would rather walk along the ids. Sorting is done here.
const OVERTAKING: &str = messages!("WHERE status IN ('waiting', 'running') AND status = 'waiting' AND overtakes = 1");
const AGAIN: &str = messages!(
    "WHERE conversation_id = $1 AND seq < $2 AND status IN ('interrupted', 'failed') ORDER BY seq DESC LIMIT 50"
);
const RETRIED: &str = "UPDATE grove_inbox SET status = 'done' WHERE id = $1 AND status IN ('interrupted', 'failed')";
const BEGIN: &str = "UPDATE grove_inbox SET status = 'running', tries = tries + 1, stop = 0 WHERE id = $1";
const PUT_BACK: &str = "UPDATE grove_inbox SET status = 'waiting', tries = 0 WHERE id = $1 AND status = 'running'";
const HARMLESS: &str = "UPDATE grove_inbox SET tries = 0 WHERE id = $1";
const AGENT: &str = "UPDATE grove_inbox SET agent_at = $2 WHERE id = $1";
const END: &str =
    "UPDATE grove_inbox SET status = $2, finished_at = $3 WHERE id = $1 AND status IN ('waiting', 'running')";
const STOP: &str = "UPDATE grove_inbox SET stop = 1 WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running'";
const WANTS_STOP: &str = "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running' AND stop = 1";
const RUNS: &str =
    "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running'";
const TOLD: &str = "UPDATE grove_inbox SET told = 1 WHERE id = $1 AND told = 0 AND status = 'waiting'";
const HEADS: &str = "SELECT i.id AS id, i.conversation_id AS conversation_id, i.told AS told FROM grove_inbox i \
     JOIN remote_agent_conversations c ON c.id = i.conversation_id \
     WHERE i.status IN ('waiting', 'running') AND i.status = 'waiting' AND i.overtakes = 0 AND c.turn_owner IS NULL \
       AND NOT EXISTS (SELECT 1 FROM grove_inbox o WHERE o.conversation_id = i.conversation_id AND o.seq < i.seq \
          AND o.status IN ('waiting', 'running'))";
const SAY: &str = "INSERT INTO grove_outbox (id, conversation_id, seq, inbox_id, kind, text, created_at) \
     VALUES ($1, $2, (SELECT COALESCE(MAX(seq), 0) + 1 FROM grove_outbox WHERE conversation_id = $2), $3, $4, $5, $6)";
const IS_SAID: &str = "SELECT id FROM grove_outbox WHERE id = $1";
const TOUCH: &str = "UPDATE remote_agent_conversations SET updated_at = $2 WHERE id = $1";

const SAID: &str = "SELECT o.id AS id, o.seq AS seq, o.kind AS kind, o.text AS text, o.created_at AS created_at, o.inbox_id AS inbox_id \
     FROM grove_outbox o WHERE o.conversation_id = $1 AND o.seq > $2 ORDER BY o.seq";
const FORGET_SAID: &str = "DELETE FROM grove_outbox WHERE conversation_id = $1";
const SAID_TO: &str = "SELECT o.id AS id, o.seq AS seq, o.kind AS kind, o.text AS text, o.created_at AS created_at, o.inbox_id AS inbox_id \
     FROM grove_outbox o WHERE o.conversation_id = $1 AND o.inbox_id = $2 ORDER BY o.seq";
const HEARD: &str = messages!("WHERE conversation_id = $1 ORDER BY seq");
const MESSAGE: &str = messages!("WHERE id = $1");
const FIRST_HEARD: &str = messages!("WHERE conversation_id = $1 ORDER BY seq LIMIT 1");
const BUSY: &str = "SELECT id FROM grove_inbox WHERE conversation_id = $1 AND status IN ('waiting', 'running') LIMIT 1";
const COUNTS: &str =
    "SELECT status, COUNT(*) AS many FROM grove_inbox WHERE status IN ('waiting', 'running') GROUP BY status";
const BUSY_IN: &str = "SELECT DISTINCT c.id AS id, c.platform_type AS platform_type, c.platform_conversation_id AS platform_conversation_id \
     FROM remote_agent_conversations c JOIN grove_inbox i ON i.conversation_id = c.id \
     WHERE c.isolation_env_id = $1 AND i.status IN ('waiting', 'running')";

macro_rules! conversations {
    ($rest:literal) => {
        concat!(
            "SELECT id, platform_type, platform_conversation_id, codebase_id, cwd, isolation_env_id, ai_assistant_type, \
             last_activity_at, removed_branch FROM remote_agent_conversations ",
            $rest
        )
    };
}

const CONVERSATION: &str = conversations!("WHERE id = $1");
const BY_PLATFORM_ID: &str = conversations!("WHERE platform_conversation_id = $1 ORDER BY created_at, id");
const RECENT: &str = conversations!("WHERE platform_type = $1 ORDER BY last_activity_at DESC LIMIT 50");
const SET_CODEBASE: &str = "UPDATE remote_agent_conversations \
     SET codebase_id = $2, isolation_env_id = NULL, cwd = NULL, updated_at = $3 WHERE id = $1";
const SET_CWD: &str = "UPDATE remote_agent_conversations SET cwd = $2, updated_at = $3 WHERE id = $1";
const SET_REMOVED: &str = "UPDATE remote_agent_conversations SET removed_branch = $2, updated_at = $3 WHERE id = $1";
const SET_AGENT: &str = "UPDATE remote_agent_conversations SET ai_assistant_type = $2, updated_at = $3 WHERE id = $1";

/// One place where people talk.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub id: ConversationId,
    pub platform: String,
    /// The platform's own id.
    pub name: String,
    pub codebase: Option<CodebaseId>,
    pub cwd: Option<String>,
    pub environment: Option<EnvironmentId>,
    pub agent: Option<String>,
    pub last_activity_at: Option<Moment>,
    /// The branch whose worktree it worked in, removed meanwhile: to be told at its next message.
    pub removed_branch: Option<String>,
}

impl Conversation {
    pub fn reference(&self) -> ConversationRef {
        ConversationRef { platform: self.platform.clone(), id: self.name.clone() }
    }
}

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

/// A conversation that waits to be worked on, and who is at it.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub conversation: ConversationId,
    pub owner: Option<Owner>,
    pub until: Option<Moment>,
    fence: i64,
}

/// A message that waits for a free place.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub message: MessageId,
    pub conversation: ConversationId,
    /// Whoever waits was told.
    pub told: bool,
}

/// Proof that a conversation is ours to work on.
#[derive(Clone, Debug)]
pub struct TurnKey {
    pub conversation: ConversationId,
    fence: i64,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Words on the way.
    Notice,
    /// What a message is answered with.
    Answer,
}

impl Manner {
    pub fn as_str(self) -> &'static str {
        match self {
            Manner::Notice => "notice",
            Manner::Answer => "answer",
        }
    }
}

/// How a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    /// What was asked for was refused, and the answer says why.
    Refused,
    /// Its run was cut short; it can be run again.
    Interrupted,
    /// It was set aside.
    Failed,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Refused => "refused",
            End::Interrupted => "interrupted",
            End::Failed => "failed",
        }
    }
}

/// What was said to people.
#[derive(Clone, Debug)]
pub struct Said {
    pub seq: i64,
    pub kind: String,
    pub text: String,
    pub at: Moment,
    pub message: Option<MessageId>,
}

impl Store {
    /// Takes something that came in. It is in the store when this returns.
    pub async fn accept(&self, incoming: &Incoming, overtakes: bool) -> Result<Accepted, StoreError> {
        self.accept_about(incoming, overtakes, None).await
    }

    /// The same; if it begins a conversation, that is about this codebase.
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

    /// The conversations that have something to be worked on, whoever waits longest first.
    pub async fn waiting_conversations(&self) -> Result<Vec<Waiting>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(WAITING).fetch_all(&self.pool).await?;
            let waiting = |row| {
                let row = Reader { row, table: CONVERSATIONS };
                Ok(Waiting {
                    conversation: row.parse("id")?,
                    owner: row.parse_optional("turn_owner")?,
                    until: row.parse_optional("turn_until")?,
                    fence: row.number("turn_fence")?,
                })
            };
            rows.iter().map(waiting).collect()
        })
        .await
    }

    /// Takes a conversation's turn, if nothing changed since it was looked at.
    pub async fn take_turn(
        &self,
        waiting: &Waiting,
        owner: &Owner,
        until: Moment,
    ) -> Result<Option<TurnKey>, StoreError> {
        let key = TurnKey { conversation: waiting.conversation, fence: waiting.fence + 1, owner: owner.clone() };
        self.retry(|| async {
            let taken = sqlx::query(TAKE)
                .bind(waiting.conversation.to_string())
                .bind(waiting.fence)
                .bind(waiting.owner.as_ref().map(ToString::to_string).unwrap_or_default())
                .bind(owner.to_string())
                .bind(until.to_string())
                .execute(&self.pool)
                .await?;
            // Taken at an earlier try whose answer was lost is taken.
            let ours = taken.rows_affected() == 1 || self.by_key(IS_OURS, &key, None).await? == 1;
            Ok(ours.then(|| key.clone()))
        })
        .await
    }

    /// Keeps a turn; `false`: it is somebody else's now.
    pub async fn renew_turn(&self, turn: &TurnKey, until: Moment) -> Result<bool, StoreError> {
        self.retry(|| async { Ok(self.by_key(RENEW, turn, Some(until)).await? == 1) }).await
    }

    pub async fn release_turn(&self, turn: &TurnKey) -> Result<(), StoreError> {
        self.retry(|| async { self.by_key(RELEASE, turn, None).await.map(drop) }).await
    }

    async fn by_key(&self, statement: &'static str, turn: &TurnKey, until: Option<Moment>) -> Result<u64, StoreError> {
        let mut query = sqlx::query(statement).bind(turn.conversation.to_string()).bind(turn.fence);
        query = query.bind(turn.owner.to_string());
        if let Some(until) = until {
            query = query.bind(until.to_string());
        }
        Ok(query.execute(&self.pool).await?.rows_affected())
    }

    /// A transaction in which the turn is certain to be ours.
    async fn in_turn(&self, turn: &TurnKey) -> Result<Transaction<'_>, StoreError> {
        let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
        let held = sqlx::query(HELD)
            .bind(turn.conversation.to_string())
            .bind(turn.fence)
            .bind(turn.owner.to_string())
            .bind(Moment::now().to_string())
            .execute(&mut *transaction)
            .await?;
        if held.rows_affected() != 1 {
            return Err(StoreError::LostTurn);
        }
        Ok(transaction)
    }

    /// The next message of the turn, and begins it. Its `status` and `agent_at` are as they were
    /// before: a message that was running already was cut short.
    pub async fn begin_message(&self, turn: &TurnKey) -> Result<Option<Message>, StoreError> {
        self.retry(|| async {
            let mut transaction = self.in_turn(turn).await?;
            let row = sqlx::query(NEXT).bind(turn.conversation.to_string()).fetch_optional(&mut *transaction).await?;
            let Some(row) = row else { return Ok(None) };
            let message = match read_message(&row) {
                Ok(message) => message,
                Err(error) => {
                    // Written by a newer version, perhaps: it must not keep the others waiting.
                    tracing::error!("a message cannot be read and is set aside: {error}");
                    let id: MessageId = Reader { row: &row, table: INBOX }.parse("id")?;
                    finish(&mut transaction, id, End::Failed).await?;
                    transaction.commit().await?;
                    return Ok(None);
                }
            };
            sqlx::query(BEGIN).bind(message.id.to_string()).execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(Some(message))
        })
        .await
    }

    /// Says words on the way.
    pub async fn say(&self, turn: &TurnKey, message: MessageId, notices: &[String]) -> Result<(), StoreError> {
        self.write_in_turn(turn, message, notices, None, None).await
    }

    /// Records that an agent is about to start: from here on the message is never run again by itself.
    pub async fn agent_starts(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.retry(|| async {
            let mut transaction = self.in_turn(turn).await?;
            let agent = sqlx::query(AGENT).bind(message.to_string()).bind(Moment::now().to_string());
            agent.execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// A message that was begun waits again, as if nothing had been.
    pub async fn put_back(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, PUT_BACK).await
    }

    /// A message only waits now: what ends the program meanwhile is not its doing.
    pub async fn is_harmless(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, HARMLESS).await
    }

    async fn change_message(
        &self,
        turn: &TurnKey,
        message: MessageId,
        statement: &'static str,
    ) -> Result<(), StoreError> {
        self.retry(|| async {
            let mut transaction = self.in_turn(turn).await?;
            sqlx::query(statement).bind(message.to_string()).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Answers a message and ends it.
    pub async fn answer(
        &self,
        turn: &TurnKey,
        message: MessageId,
        notices: &[String],
        answer: Option<&str>,
        end: End,
    ) -> Result<(), StoreError> {
        self.write_in_turn(turn, message, notices, answer, Some(end)).await
    }

    async fn write_in_turn(
        &self,
        turn: &TurnKey,
        message: MessageId,
        notices: &[String],
        answer: Option<&str>,
        end: Option<End>,
    ) -> Result<(), StoreError> {
        let notices = notices.iter().map(|text| (Manner::Notice, text.as_str()));
        let words = notices.chain(answer.map(|text| (Manner::Answer, text)));
        // Named before the first try: a try whose answer was lost is known again by them.
        let words: Vec<_> = words.map(|(manner, text)| (MessageId::new(), manner, text)).collect();
        self.retry(|| async {
            let mut transaction = self.in_turn(turn).await?;
            for &(id, manner, text) in &words {
                say(&mut transaction, id, turn.conversation, message, manner, text).await?;
            }
            if let Some(end) = end {
                finish(&mut transaction, message, end).await?;
            }
            Ok(transaction.commit().await?)
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

    /// Asks what runs in a conversation to stop, and answers whoever wanted that: whether anything
    /// does. `None`: somebody else did.
    pub async fn answer_overtaking(
        &self,
        message: &Message,
        answer: impl Fn(bool) -> &'static str,
    ) -> Result<Option<bool>, StoreError> {
        self.retry(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            touch(&mut transaction, message.conversation).await?;
            if !finish(&mut transaction, message.id, End::Done).await? {
                return Ok(None);
            }
            let stop = sqlx::query(STOP).bind(message.conversation.to_string()).execute(&mut *transaction).await?;
            let runs = stop.rows_affected() > 0;
            let (id, words) = (MessageId::new(), answer(runs));
            say(&mut transaction, id, message.conversation, message.id, Manner::Answer, words).await?;
            transaction.commit().await?;
            Ok(Some(runs))
        })
        .await
    }

    /// Whether somebody wants what runs in a conversation to stop.
    pub async fn wants_stop(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        self.is_any(WANTS_STOP, conversation).await
    }

    /// Whether a message of a conversation is being worked on.
    pub async fn runs(&self, conversation: ConversationId) -> Result<bool, StoreError> {
        self.is_any(RUNS, conversation).await
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

    /// Tells somebody that they wait, once.
    pub async fn tell(&self, queued: &Queued, notice: &str) -> Result<bool, StoreError> {
        self.retry(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            touch(&mut transaction, queued.conversation).await?;
            let told = sqlx::query(TOLD).bind(queued.message.to_string()).execute(&mut *transaction).await?;
            if told.rows_affected() == 0 {
                return Ok(false);
            }
            say(&mut transaction, MessageId::new(), queued.conversation, queued.message, Manner::Notice, notice)
                .await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// A message that was cut short has been run again, to its end.
    pub async fn retried(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, RETRIED).await
    }

    /// The messages before `seq` that were cut short or set aside, the last one first.
    pub async fn cut_short(&self, conversation: ConversationId, before: i64) -> Result<Vec<Message>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(AGAIN).bind(conversation.to_string()).bind(before).fetch_all(&self.pool).await?;
            rows.iter().map(read_message).collect()
        })
        .await
    }

    /// What was said in a conversation, after `seq`.
    pub async fn said(&self, conversation: ConversationId, after: i64) -> Result<Vec<Said>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(SAID).bind(conversation.to_string()).bind(after).fetch_all(&self.pool).await?;
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

    /// One message, however it stands.
    pub async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(MESSAGE).bind(id.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_message).transpose()
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

    pub async fn conversation(&self, id: ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(CONVERSATION).bind(id.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_conversation).transpose()
        })
        .await
    }

    /// The conversations with this id, on whatever platform.
    pub async fn conversations_called(&self, name: &str) -> Result<Vec<Conversation>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(BY_PLATFORM_ID).bind(name.to_owned()).fetch_all(&self.pool).await?;
            rows.iter().map(read_conversation).collect()
        })
        .await
    }

    /// The latest conversations of a platform.
    pub async fn recent_conversations(&self, platform: &str) -> Result<Vec<Conversation>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(RECENT).bind(platform.to_owned()).fetch_all(&self.pool).await?;
            rows.iter().map(read_conversation).collect()
        })
        .await
    }

    /// Chooses a conversation's codebase; it works nowhere until its next message.
    pub async fn choose_codebase(&self, id: ConversationId, codebase: CodebaseId) -> Result<(), StoreError> {
        self.set(SET_CODEBASE, id, Some(codebase.to_string())).await
    }

    pub async fn choose_cwd(&self, id: ConversationId, cwd: Option<&str>) -> Result<(), StoreError> {
        self.set(SET_CWD, id, cwd.map(str::to_owned)).await
    }

    /// The conversation was told that its worktree is gone.
    pub async fn told_of_removal(&self, id: ConversationId) -> Result<(), StoreError> {
        self.set(SET_REMOVED, id, None).await
    }

    pub async fn choose_agent(&self, id: ConversationId, agent: Option<&str>) -> Result<(), StoreError> {
        self.set(SET_AGENT, id, agent.map(str::to_owned)).await
    }

    async fn set(&self, statement: &'static str, id: ConversationId, value: Option<String>) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(statement).bind(id.to_string()).bind(value.clone());
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}

const CONVERSATIONS: &str = "remote_agent_conversations";
const INBOX: &str = "grove_inbox";

async fn touch(transaction: &mut Transaction<'_>, conversation: ConversationId) -> Result<(), StoreError> {
    let touch = sqlx::query(TOUCH).bind(conversation.to_string()).bind(Moment::now().to_string());
    touch.execute(&mut **transaction).await?;
    Ok(())
}

async fn say(
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

async fn finish(transaction: &mut Transaction<'_>, message: MessageId, end: End) -> Result<bool, StoreError> {
    let ended = sqlx::query(END).bind(message.to_string()).bind(end.as_str()).bind(Moment::now().to_string());
    Ok(ended.execute(&mut **transaction).await?.rows_affected() == 1)
}

fn read_said(row: &AnyRow) -> Result<Said, StoreError> {
    let row = Reader { row, table: "grove_outbox" };
    Ok(Said {
        seq: row.number("seq")?,
        kind: row.text("kind")?,
        text: row.text("text")?,
        at: row.parse("created_at")?,
        message: row.parse_optional("inbox_id")?,
    })
}

fn read_message(row: &AnyRow) -> Result<Message, StoreError> {
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

fn read_conversation(row: &AnyRow) -> Result<Conversation, StoreError> {
    let row = Reader { row, table: CONVERSATIONS };
    Ok(Conversation {
        id: row.parse("id")?,
        platform: row.text("platform_type")?,
        name: row.text("platform_conversation_id")?,
        codebase: row.parse_optional("codebase_id")?,
        cwd: row.optional_text("cwd")?,
        environment: row.parse_optional("isolation_env_id")?,
        agent: row.optional_text("ai_assistant_type")?,
        last_activity_at: row.parse_optional("last_activity_at")?,
        removed_branch: row.optional_text("removed_branch")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    /// However much was ever said: what every hand-out and every beat asks reads what is open, no more.
    #[tokio::test]
    async fn what_is_asked_often_reads_open_messages_only() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("grove.db").display());
        let store = Store::open(&url, Options::default()).await.unwrap();
        for statement in [WAITING, OVERTAKING, HEADS, NEXT, WANTS_STOP, RUNS, BUSY, COUNTS] {
            let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            let mut query = sqlx::query(explain);
            if statement.contains("$1") {
                query = query.bind("x");
            }
            let rows = query.fetch_all(&store.pool).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| sqlx::Row::get::<String, _>(row, "detail")).collect();
            assert!(plan.iter().any(|step| step.contains("open_messages")), "{statement}: {plan:?}");
            assert!(!plan.iter().any(|step| step.contains("autoindex_grove_inbox")), "{statement}: {plan:?}");
        }
        store.close().await;
    }
}
