//! The turns of conversations, and the writes that happen in a turn.
//!
//! A process that works on a conversation holds its turn, and every write in a turn happens only while the
//! process still holds it. The answer and the end of a message are one transaction, so that every message has
//! one answer however often a process dies.

use grove_model::{Choice, ConversationId, MessageId, MessageStatus, Moment, OutboxKind, ProcessOwner};

use crate::conversations::CONVERSATIONS_TABLE;
use crate::inbox::{INBOX_TABLE, InboxMessage, messages, read_message};
use crate::outbox::{NewOutboxEntry, StoreTransaction, insert_outbox_entry, touch_conversation};
use crate::row::RowReader;
use crate::{QueuedMessage, Store, StoreError};

const WAITING_CONVERSATIONS: &str = "SELECT c.id AS id, c.turn_owner AS turn_owner, c.turn_until AS turn_until, c.turn_fence AS turn_fence, \
     MIN(i.id) AS first FROM grove_inbox i JOIN remote_agent_conversations c ON c.id = i.conversation_id \
     WHERE i.status IN ('waiting', 'running') AND i.overtakes = 0 \
     GROUP BY c.id, c.turn_owner, c.turn_until, c.turn_fence ORDER BY first";
const TAKE_TURN: &str = "UPDATE remote_agent_conversations SET turn_owner = $4, turn_until = $5, turn_fence = turn_fence + 1 \
     WHERE id = $1 AND turn_fence = $2 AND COALESCE(turn_owner, '') = $3";
const RENEW_TURN: &str = "UPDATE remote_agent_conversations SET turn_until = $4 \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";
const RELEASE_TURN: &str = "UPDATE remote_agent_conversations SET turn_owner = NULL, turn_until = NULL \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";
const CHECK_TURN_OWNER: &str = "UPDATE remote_agent_conversations SET turn_fence = turn_fence \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";
/// Checks that the turn is still ours, and keeps it ours until the transaction ends.
const LOCK_OWN_TURN: &str = "UPDATE remote_agent_conversations SET updated_at = $4 \
     WHERE id = $1 AND turn_fence = $2 AND turn_owner = $3";

const NEXT_MESSAGE: &str =
    messages!("WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND overtakes = 0 ORDER BY seq LIMIT 1");
const BEGIN_MESSAGE: &str = "UPDATE grove_inbox SET status = 'running', tries = tries + 1, stop = 0 WHERE id = $1";
const PUT_MESSAGE_BACK: &str =
    "UPDATE grove_inbox SET status = 'waiting', tries = 0 WHERE id = $1 AND status = 'running'";
const RESET_MESSAGE_TRIES: &str = "UPDATE grove_inbox SET tries = 0 WHERE id = $1";
const SET_AGENT_START: &str = "UPDATE grove_inbox SET agent_at = $2 WHERE id = $1";
const MARK_MESSAGE_RETRIED: &str =
    "UPDATE grove_inbox SET status = 'done' WHERE id = $1 AND status IN ('interrupted', 'failed', 'asked')";
const FINISH_MESSAGE: &str =
    "UPDATE grove_inbox SET status = $2, finished_at = $3 WHERE id = $1 AND status IN ('waiting', 'running')";
const STOP_RUNNING_MESSAGE: &str = "UPDATE grove_inbox SET stop = 1 WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running'";
const MARK_WAIT_NOTICE_SENT: &str = "UPDATE grove_inbox SET told = 1 WHERE id = $1 AND told = 0 AND status = 'waiting'";

/// A conversation with waiting messages, and the process that works on it.
#[derive(Clone, Debug)]
pub struct WaitingConversation {
    pub conversation: ConversationId,
    pub owner: Option<ProcessOwner>,
    pub until: Option<Moment>,
    fence: i64,
}

/// Proof that the caller holds the turn of a conversation.
#[derive(Clone, Debug)]
pub struct TurnKey {
    pub conversation: ConversationId,
    fence: i64,
    owner: ProcessOwner,
}

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxOutcome {
    Done,
    /// The request was refused, and the answer says why.
    Refused,
    /// Its run was interrupted; it can be run again.
    Interrupted,
    /// It was set aside.
    Failed,
    /// The answer asks a question; the message is kept.
    Asked,
}

impl From<InboxOutcome> for MessageStatus {
    fn from(outcome: InboxOutcome) -> Self {
        match outcome {
            InboxOutcome::Done => MessageStatus::Done,
            InboxOutcome::Refused => MessageStatus::Refused,
            InboxOutcome::Interrupted => MessageStatus::Interrupted,
            InboxOutcome::Failed => MessageStatus::Failed,
            InboxOutcome::Asked => MessageStatus::Asked,
        }
    }
}

impl Store {
    /// Returns the conversations with messages to work on, the longest waiting one first.
    pub async fn waiting_conversations(&self) -> Result<Vec<WaitingConversation>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(WAITING_CONVERSATIONS).fetch_all(&self.pool).await?;
            let waiting = |row| {
                let row = RowReader { row, table: CONVERSATIONS_TABLE };
                Ok(WaitingConversation {
                    conversation: row.parse("id")?,
                    owner: row.parse_optional("turn_owner")?,
                    until: row.parse_optional("turn_until")?,
                    fence: row.required_number("turn_fence")?,
                })
            };
            rows.iter().map(waiting).collect()
        })
        .await
    }

    /// Takes a conversation's turn, if nothing changed since the caller read it.
    pub async fn take_turn(
        &self,
        waiting: &WaitingConversation,
        owner: &ProcessOwner,
        until: Moment,
    ) -> Result<Option<TurnKey>, StoreError> {
        let key = TurnKey { conversation: waiting.conversation, fence: waiting.fence + 1, owner: owner.clone() };
        self.retry_while_disconnected(|| async {
            let taken = sqlx::query(TAKE_TURN)
                .bind(waiting.conversation.to_string())
                .bind(waiting.fence)
                .bind(waiting.owner.as_ref().map(ToString::to_string).unwrap_or_default())
                .bind(owner.to_string())
                .bind(until.to_string())
                .execute(&self.pool)
                .await?;
            // A turn that an earlier attempt took, and whose answer was lost, counts as taken.
            let ours = taken.rows_affected() == 1 || self.by_key(CHECK_TURN_OWNER, &key, None).await? == 1;
            Ok(ours.then(|| key.clone()))
        })
        .await
    }

    /// Renews a turn. Returns `false` if another process holds it now.
    pub async fn renew_turn(&self, turn: &TurnKey, until: Moment) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async { Ok(self.by_key(RENEW_TURN, turn, Some(until)).await? == 1) }).await
    }

    pub async fn release_turn(&self, turn: &TurnKey) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async { self.by_key(RELEASE_TURN, turn, None).await.map(drop) }).await
    }

    async fn by_key(&self, statement: &'static str, turn: &TurnKey, until: Option<Moment>) -> Result<u64, StoreError> {
        let mut query = sqlx::query(statement).bind(turn.conversation.to_string()).bind(turn.fence);
        query = query.bind(turn.owner.to_string());
        if let Some(until) = until {
            query = query.bind(until.to_string());
        }
        Ok(query.execute(&self.pool).await?.rows_affected())
    }

    /// Begins a transaction in which the turn is certain to be ours.
    async fn in_turn(&self, turn: &TurnKey) -> Result<StoreTransaction<'_>, StoreError> {
        let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
        let held = sqlx::query(LOCK_OWN_TURN)
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

    /// Begins the next message of the turn and returns it. Its `status` and `agent_at` are the values from
    /// before: a message that was already running was interrupted.
    pub async fn begin_message(&self, turn: &TurnKey) -> Result<Option<InboxMessage>, StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.in_turn(turn).await?;
            let row =
                sqlx::query(NEXT_MESSAGE).bind(turn.conversation.to_string()).fetch_optional(&mut *transaction).await?;
            let Some(row) = row else { return Ok(None) };
            let message = match read_message(&row) {
                Ok(message) => message,
                Err(error) => {
                    // A newer version may have written it: it must not block the other messages.
                    tracing::error!("a message cannot be read and is set aside: {error}");
                    let id: MessageId = RowReader { row: &row, table: INBOX_TABLE }.parse("id")?;
                    finish_message(&mut transaction, id, InboxOutcome::Failed).await?;
                    transaction.commit().await?;
                    return Ok(None);
                }
            };
            sqlx::query(BEGIN_MESSAGE).bind(message.id.to_string()).execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(Some(message))
        })
        .await
    }

    /// Posts notices, which are messages before the answer.
    pub async fn post_notices(&self, turn: &TurnKey, message: MessageId, notices: &[String]) -> Result<(), StoreError> {
        let notices = notices.iter().map(|text| NewOutboxEntry::new(OutboxKind::Notice, text));
        self.write_in_turn(turn, message, notices.collect(), None).await
    }

    /// Records that an agent is about to start: from here on the message is never run again automatically.
    pub async fn agent_starts(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.in_turn(turn).await?;
            let agent = sqlx::query(SET_AGENT_START).bind(message.to_string()).bind(Moment::now().to_string());
            agent.execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Puts a message that was begun back into the queue, as if it had never been begun.
    pub async fn put_back(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, PUT_MESSAGE_BACK).await
    }

    /// Records that a message only waits now: if the program ends meanwhile, this message is not the cause.
    pub async fn mark_repeatable(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, RESET_MESSAGE_TRIES).await
    }

    /// Records that an interrupted or kept message has been run, to its end.
    pub async fn mark_retried(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, MARK_MESSAGE_RETRIED).await
    }

    async fn change_message(
        &self,
        turn: &TurnKey,
        message: MessageId,
        statement: &'static str,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.in_turn(turn).await?;
            sqlx::query(statement).bind(message.to_string()).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Answers a message and ends it. The answer may be a question with a fixed set of answers.
    pub async fn answer_message(
        &self,
        turn: &TurnKey,
        message: MessageId,
        answer: Option<&str>,
        choice: Option<&Choice>,
        end: InboxOutcome,
    ) -> Result<(), StoreError> {
        let answer = answer.map(|text| NewOutboxEntry::new(OutboxKind::Answer, text).with_choice(choice));
        self.write_in_turn(turn, message, answer.into_iter().collect(), Some(end)).await
    }

    async fn write_in_turn(
        &self,
        turn: &TurnKey,
        message: MessageId,
        entries: Vec<NewOutboxEntry<'_>>,
        end: Option<InboxOutcome>,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.in_turn(turn).await?;
            for entry in &entries {
                insert_outbox_entry(&mut transaction, turn.conversation, message, entry).await?;
            }
            if let Some(end) = end {
                finish_message(&mut transaction, message, end).await?;
            }
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Asks the running message of a conversation to stop, and answers the sender of the stop request.
    /// Returns whether a message is running; `None`: another process answered already.
    pub async fn answer_overtaking(
        &self,
        message: &InboxMessage,
        answer: impl Fn(bool) -> &'static str,
    ) -> Result<Option<bool>, StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            touch_conversation(&mut transaction, message.conversation).await?;
            if !finish_message(&mut transaction, message.id, InboxOutcome::Done).await? {
                return Ok(None);
            }
            let stop = sqlx::query(STOP_RUNNING_MESSAGE)
                .bind(message.conversation.to_string())
                .execute(&mut *transaction)
                .await?;
            let runs = stop.rows_affected() > 0;
            let entry = NewOutboxEntry::new(OutboxKind::Answer, answer(runs));
            insert_outbox_entry(&mut transaction, message.conversation, message.id, &entry).await?;
            transaction.commit().await?;
            Ok(Some(runs))
        })
        .await
    }

    /// Tells the sender of a queued message once that it waits. Returns `false` if the sender was told
    /// before.
    pub async fn notify_waiting(&self, queued: &QueuedMessage, notice: &str) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            touch_conversation(&mut transaction, queued.conversation).await?;
            let told =
                sqlx::query(MARK_WAIT_NOTICE_SENT).bind(queued.message.to_string()).execute(&mut *transaction).await?;
            if told.rows_affected() == 0 {
                return Ok(false);
            }
            let entry = NewOutboxEntry::new(OutboxKind::Notice, notice);
            insert_outbox_entry(&mut transaction, queued.conversation, queued.message, &entry).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }
}

async fn finish_message(
    transaction: &mut StoreTransaction<'_>,
    message: MessageId,
    end: InboxOutcome,
) -> Result<bool, StoreError> {
    let status = MessageStatus::from(end).as_str();
    let ended = sqlx::query(FINISH_MESSAGE).bind(message.to_string()).bind(status).bind(Moment::now().to_string());
    Ok(ended.execute(&mut **transaction).await?.rows_affected() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use crate::inbox::{
        MESSAGE_TO_STOP, OPEN_MESSAGE_COUNTS, OPEN_MESSAGE_OF_CONVERSATION, OVERTAKING_MESSAGES, QUEUE_HEADS,
    };

    /// The queries of every dispatch and every heartbeat read only open messages, however many the store
    /// holds.
    #[tokio::test]
    async fn what_is_asked_often_reads_open_messages_only() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("grove.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        for statement in [
            WAITING_CONVERSATIONS,
            OVERTAKING_MESSAGES,
            QUEUE_HEADS,
            NEXT_MESSAGE,
            STOP_RUNNING_MESSAGE,
            MESSAGE_TO_STOP,
            OPEN_MESSAGE_OF_CONVERSATION,
            OPEN_MESSAGE_COUNTS,
        ] {
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
