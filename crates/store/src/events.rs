//! `grove_events` and `grove_marks`: what platforms told us, before anybody has read it, and how far
//! they were read.

use grove_model::{MessageId, Moment, Owner};

use crate::row::Reader;
use crate::{Store, StoreError};

const EVENTS: &str = "grove_events";
const KEEP: &str = "INSERT INTO grove_events (id, platform, delivery, kind, body, status, received_at) \
     VALUES ($1, $2, $3, $4, $5, 'waiting', $6) ON CONFLICT (platform, delivery) DO NOTHING";
const IS_KEPT: &str = "SELECT id FROM grove_events WHERE platform = $1 AND delivery = $2";
const WAITING: &str = "SELECT id, delivery, kind, body, tries, not_before, worker, worker_until FROM grove_events \
     WHERE status = 'waiting' AND platform = $1 AND id > $2 ORDER BY id LIMIT $3";
const TAKE: &str = "UPDATE grove_events SET worker = $2, worker_until = $4, tries = tries + 1 \
     WHERE id = $1 AND status = 'waiting' AND tries = $3";
const DONE: &str =
    "UPDATE grove_events SET status = $2, outcome = $3, worker = NULL WHERE id = $1 AND status = 'waiting'";
const LATER: &str = "UPDATE grove_events SET not_before = $2, outcome = $3, worker = NULL WHERE id = $1";
const FORGET: &str = "DELETE FROM grove_events WHERE status <> 'waiting' AND received_at < $1";
const MARK: &str = "SELECT value FROM grove_marks WHERE platform = $1 AND name = $2";
const STATES: &str = "SELECT platform, value FROM grove_marks WHERE name = 'state' ORDER BY platform";
const UNREAD: &str = "SELECT COUNT(*) AS many FROM grove_events WHERE status = 'waiting' AND platform = $1";
const UNSENT: &str = "SELECT COUNT(*) AS many FROM grove_outbox WHERE via IS NOT NULL AND sent_at IS NULL AND via = $1";
pub(crate) const SET_MARK: &str = "INSERT INTO grove_marks (platform, name, value) VALUES ($1, $2, $3) \
     ON CONFLICT (platform, name) DO UPDATE SET value = excluded.value";

const SET_FIRST_MARK: &str = "INSERT INTO grove_marks (platform, name, value) VALUES ($1, $2, $3) \
     ON CONFLICT (platform, name) DO NOTHING";

/// What a platform said.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub platform: String,
    /// The platform's name for the delivery.
    pub delivery: String,
    pub kind: String,
    pub body: String,
}

/// What a platform said and nobody has worked on.
#[derive(Clone, Debug)]
pub struct RawEvent {
    pub id: MessageId,
    pub delivery: String,
    pub kind: String,
    pub body: String,
    /// How often somebody began to work on it.
    pub tries: i64,
    /// It was put off, and keeps what is behind it waiting.
    pub not_before: Option<Moment>,
    pub worker: Option<Owner>,
    pub worker_until: Option<Moment>,
}

impl Store {
    /// Keeps what platforms said, all of it or nothing, in one transaction; which of it is new.
    pub async fn keep_events(&self, events: &[NewEvent]) -> Result<Vec<bool>, StoreError> {
        // Named before the first try: a try whose answer was lost is known again by them.
        let ids: Vec<String> = events.iter().map(|_| MessageId::new().to_string()).collect();
        self.retry(|| async {
            let now = Moment::now().to_string();
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let mut fresh = Vec::with_capacity(events.len());
            for (event, id) in events.iter().zip(&ids) {
                let kept = sqlx::query(KEEP)
                    .bind(id.clone())
                    .bind(event.platform.clone())
                    .bind(event.delivery.clone())
                    .bind(event.kind.clone())
                    .bind(event.body.clone())
                    .bind(now.clone())
                    .execute(&mut *transaction)
                    .await?;
                let mut new = kept.rows_affected() == 1;
                if !new {
                    let known = sqlx::query(IS_KEPT).bind(event.platform.clone()).bind(event.delivery.clone());
                    let row = known.fetch_optional(&mut *transaction).await?;
                    new =
                        row.is_some_and(|row| Reader { row: &row, table: EVENTS }.text("id").is_ok_and(|is| is == *id));
                }
                fresh.push(new);
            }
            transaction.commit().await?;
            Ok(fresh)
        })
        .await
    }

    /// What of a platform's words waits, the oldest first, also what was put off; `after` goes on behind
    /// what was looked at.
    pub async fn waiting_events(
        &self,
        platform: &str,
        after: Option<MessageId>,
        most: i64,
    ) -> Result<Vec<RawEvent>, StoreError> {
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        self.retry(|| async {
            let query = sqlx::query(WAITING).bind(platform.to_owned()).bind(after.clone()).bind(most);
            let read = |row| {
                let row = Reader { row, table: EVENTS };
                Ok(RawEvent {
                    id: row.parse("id")?,
                    delivery: row.text("delivery")?,
                    kind: row.text("kind")?,
                    body: row.text("body")?,
                    tries: row.number("tries")?,
                    not_before: row.parse_optional("not_before")?,
                    worker: row.parse_optional("worker")?,
                    worker_until: row.parse_optional("worker_until")?,
                })
            };
            query.fetch_all(&self.pool).await?.iter().map(read).collect()
        })
        .await
    }

    /// Takes an event to work on it, if nobody else did since it was looked at.
    pub async fn take_event(&self, event: &RawEvent, worker: &Owner, until: Moment) -> Result<bool, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(TAKE).bind(event.id.to_string()).bind(worker.to_string()).bind(event.tries);
            let query = query.bind(until.to_string());
            Ok(query.execute(&self.pool).await?.rows_affected() == 1)
        })
        .await
    }

    /// An event is worked off; `well`: as it should be. `outcome` says what came of it.
    pub async fn event_done(&self, event: MessageId, well: bool, outcome: &str) -> Result<(), StoreError> {
        let status = if well { "done" } else { "failed" };
        self.write_event(DONE, event, status.to_owned(), outcome).await
    }

    /// An event waits until then.
    pub async fn event_later(&self, event: MessageId, not_before: Moment, why: &str) -> Result<(), StoreError> {
        self.write_event(LATER, event, not_before.to_string(), why).await
    }

    async fn write_event(
        &self,
        statement: &'static str,
        event: MessageId,
        value: String,
        outcome: &str,
    ) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(statement).bind(event.to_string()).bind(value.clone()).bind(outcome.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Forgets what was worked off and came before then.
    pub async fn forget_events(&self, before: Moment) -> Result<u64, StoreError> {
        self.retry(|| async {
            Ok(sqlx::query(FORGET).bind(before.to_string()).execute(&self.pool).await?.rows_affected())
        })
        .await
    }

    /// How far a platform was read.
    pub async fn mark(&self, platform: &str, name: &str) -> Result<Option<String>, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(MARK).bind(platform.to_owned()).bind(name.to_owned());
            let row = query.fetch_optional(&self.pool).await?;
            row.map(|row| Reader { row: &row, table: "grove_marks" }.text("value")).transpose()
        })
        .await
    }

    /// How the adapters said that they were, by platform.
    pub async fn states(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(STATES).fetch_all(&self.pool).await?;
            let read = |row| {
                let row = Reader { row, table: "grove_marks" };
                Ok((row.text("platform")?, row.text("value")?))
            };
            rows.iter().map(read).collect()
        })
        .await
    }

    /// How much of what a platform told is not worked on yet.
    pub async fn unread_count(&self, platform: &str) -> Result<i64, StoreError> {
        self.many(UNREAD, platform).await
    }

    /// How much of what a platform is to be told is not sent yet.
    pub async fn unsent_count(&self, platform: &str) -> Result<i64, StoreError> {
        self.many(UNSENT, platform).await
    }

    async fn many(&self, query: &'static str, platform: &str) -> Result<i64, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(query).bind(platform.to_owned()).fetch_one(&self.pool).await?;
            Reader { row: &row, table: EVENTS }.number("many")
        })
        .await
    }

    pub async fn set_mark(&self, platform: &str, name: &str, value: &str) -> Result<(), StoreError> {
        self.write_mark(SET_MARK, platform, name, value).await
    }

    /// The same, unless it is set already.
    pub async fn set_first_mark(&self, platform: &str, name: &str, value: &str) -> Result<(), StoreError> {
        self.write_mark(SET_FIRST_MARK, platform, name, value).await
    }

    async fn write_mark(
        &self,
        statement: &'static str,
        platform: &str,
        name: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(statement).bind(platform.to_owned()).bind(name.to_owned()).bind(value.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}
