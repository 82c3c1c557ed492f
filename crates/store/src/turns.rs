//! Whose turn it is, and what is written in a turn.
//!
//! Whoever works on a conversation holds its turn, and everything that is written in a turn is written
//! only while the turn is still theirs: the answer and the end of a message are one transaction, so
//! that every message has one answer however often a process dies.

use grove_model::{ConversationId, MessageId, Moment, Owner};

use crate::conversations::CONVERSATIONS;
use crate::inbox::{INBOX, Message, messages, read_message};
use crate::outbox::{Transaction, say, touch};
use crate::row::Reader;
use crate::{Manner, Queued, Store, StoreError};

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

const NEXT: &str =
    messages!("WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND overtakes = 0 ORDER BY seq LIMIT 1");
const BEGIN: &str = "UPDATE grove_inbox SET status = 'running', tries = tries + 1, stop = 0 WHERE id = $1";
const PUT_BACK: &str = "UPDATE grove_inbox SET status = 'waiting', tries = 0 WHERE id = $1 AND status = 'running'";
const HARMLESS: &str = "UPDATE grove_inbox SET tries = 0 WHERE id = $1";
const AGENT: &str = "UPDATE grove_inbox SET agent_at = $2 WHERE id = $1";
const RETRIED: &str = "UPDATE grove_inbox SET status = 'done' WHERE id = $1 AND status IN ('interrupted', 'failed')";
const END: &str =
    "UPDATE grove_inbox SET status = $2, finished_at = $3 WHERE id = $1 AND status IN ('waiting', 'running')";
const STOP: &str = "UPDATE grove_inbox SET stop = 1 WHERE conversation_id = $1 AND status IN ('waiting', 'running') AND status = 'running'";
const TOLD: &str = "UPDATE grove_inbox SET told = 1 WHERE id = $1 AND told = 0 AND status = 'waiting'";

/// A conversation that waits to be worked on, and who is at it.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub conversation: ConversationId,
    pub owner: Option<Owner>,
    pub until: Option<Moment>,
    fence: i64,
}

/// Proof that a conversation is ours to work on.
#[derive(Clone, Debug)]
pub struct TurnKey {
    pub conversation: ConversationId,
    fence: i64,
    owner: Owner,
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

impl Store {
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
        let words = notices.iter().map(|text| (Manner::Notice, text.as_str()));
        self.write_in_turn(turn, message, words, None).await
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

    /// A message that was cut short has been run again, to its end.
    pub async fn retried(&self, turn: &TurnKey, message: MessageId) -> Result<(), StoreError> {
        self.change_message(turn, message, RETRIED).await
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
        answer: Option<&str>,
        end: End,
    ) -> Result<(), StoreError> {
        let words = answer.map(|text| (Manner::Answer, text));
        self.write_in_turn(turn, message, words, Some(end)).await
    }

    async fn write_in_turn<'t>(
        &self,
        turn: &TurnKey,
        message: MessageId,
        words: impl IntoIterator<Item = (Manner, &'t str)>,
        end: Option<End>,
    ) -> Result<(), StoreError> {
        // Named before the first try: a try whose answer was lost is known again by them.
        let words: Vec<_> = words.into_iter().map(|(manner, text)| (MessageId::new(), manner, text)).collect();
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
}

async fn finish(transaction: &mut Transaction<'_>, message: MessageId, end: End) -> Result<bool, StoreError> {
    let ended = sqlx::query(END).bind(message.to_string()).bind(end.as_str()).bind(Moment::now().to_string());
    Ok(ended.execute(&mut **transaction).await?.rows_affected() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::inbox::{BUSY, COUNTS, HEADS, OVERTAKING, WANTS_STOP};

    /// However much was ever said: what every hand-out and every beat asks reads what is open, no more.
    #[tokio::test]
    async fn what_is_asked_often_reads_open_messages_only() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("grove.db").display());
        let store = Store::open(&url, Options::default()).await.unwrap();
        for statement in [WAITING, OVERTAKING, HEADS, NEXT, STOP, WANTS_STOP, BUSY, COUNTS] {
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
