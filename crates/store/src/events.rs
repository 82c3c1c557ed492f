//! `grove_events` and `grove_marks`: raw events from platforms, stored before any handler reads them, and the
//! position up to which each platform was read.

use grove_model::{EventOutcome, MessageId, Moment, ProcessOwner};

use crate::row::RowReader;
use crate::{Store, StoreError};

const EVENTS_TABLE: &str = "grove_events";
const INSERT_EVENT: &str = "INSERT INTO grove_events (id, platform, delivery, kind, body, status, received_at) \
     VALUES ($1, $2, $3, $4, $5, 'waiting', $6) ON CONFLICT (platform, delivery) DO NOTHING";
const EVENT_BY_DELIVERY: &str = "SELECT id FROM grove_events WHERE platform = $1 AND delivery = $2";
const WAITING_EVENTS: &str = "SELECT id, delivery, kind, body, tries, not_before, worker, worker_until FROM grove_events \
     WHERE status = 'waiting' AND platform = $1 AND id > $2 ORDER BY id LIMIT $3";
const TAKE_EVENT: &str = "UPDATE grove_events SET worker = $2, worker_until = $4, tries = tries + 1 \
     WHERE id = $1 AND status = 'waiting' AND tries = $3";
const FINISH_EVENT: &str =
    "UPDATE grove_events SET status = $2, outcome = $3, worker = NULL WHERE id = $1 AND status = 'waiting'";
const POSTPONE_EVENT: &str = "UPDATE grove_events SET not_before = $2, outcome = $3, worker = NULL WHERE id = $1";
const DELETE_OLD_EVENTS: &str = "DELETE FROM grove_events WHERE status <> 'waiting' AND received_at < $1";
const SELECT_MARK: &str = "SELECT value FROM grove_marks WHERE platform = $1 AND name = $2";
const ADAPTER_STATES: &str = "SELECT platform, value FROM grove_marks WHERE name = 'state' ORDER BY platform";
const COUNT_UNREAD_EVENTS: &str =
    "SELECT COUNT(*) AS many FROM grove_events WHERE status = 'waiting' AND platform = $1";
const COUNT_UNSENT_MESSAGES: &str =
    "SELECT COUNT(*) AS many FROM grove_outbox WHERE via IS NOT NULL AND sent_at IS NULL AND via = $1";
pub(crate) const SET_MARK: &str = "INSERT INTO grove_marks (platform, name, value) VALUES ($1, $2, $3) \
     ON CONFLICT (platform, name) DO UPDATE SET value = excluded.value";

const SET_FIRST_MARK: &str = "INSERT INTO grove_marks (platform, name, value) VALUES ($1, $2, $3) \
     ON CONFLICT (platform, name) DO NOTHING";

/// An event from a platform.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub platform: String,
    /// The platform's id of the delivery.
    pub delivery: String,
    pub kind: String,
    pub body: String,
}

/// An event from a platform that is not handled yet.
#[derive(Clone, Debug)]
pub struct RawEvent {
    pub id: MessageId,
    pub delivery: String,
    pub kind: String,
    pub body: String,
    /// The number of attempts to handle it.
    pub tries: i64,
    /// It is postponed until then, and the events behind it wait.
    pub not_before: Option<Moment>,
    pub worker: Option<ProcessOwner>,
    pub worker_until: Option<Moment>,
}

impl Store {
    /// Stores events from platforms, all or none, in one transaction. Returns which of them are new.
    pub async fn keep_events(&self, events: &[NewEvent]) -> Result<Vec<bool>, StoreError> {
        // The ids are chosen before the first attempt: a retry after a lost answer recognizes its own rows by
        // them.
        let ids: Vec<String> = events.iter().map(|_| MessageId::new().to_string()).collect();
        self.retry_while_disconnected(|| async {
            let now = Moment::now().to_string();
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let mut fresh = Vec::with_capacity(events.len());
            for (event, id) in events.iter().zip(&ids) {
                let kept = sqlx::query(INSERT_EVENT)
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
                    let known =
                        sqlx::query(EVENT_BY_DELIVERY).bind(event.platform.clone()).bind(event.delivery.clone());
                    let row = known.fetch_optional(&mut *transaction).await?;
                    new = row.is_some_and(|row| {
                        RowReader { row: &row, table: EVENTS_TABLE }.required_text("id").is_ok_and(|is| is == *id)
                    });
                }
                fresh.push(new);
            }
            transaction.commit().await?;
            Ok(fresh)
        })
        .await
    }

    /// Returns the waiting events of a platform, oldest first, including the postponed ones; `after`
    /// continues behind the last event that the caller has seen.
    pub async fn waiting_events(
        &self,
        platform: &str,
        after: Option<MessageId>,
        most: i64,
    ) -> Result<Vec<RawEvent>, StoreError> {
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(WAITING_EVENTS).bind(platform.to_owned()).bind(after.clone()).bind(most);
            let read = |row| {
                let row = RowReader { row, table: EVENTS_TABLE };
                Ok(RawEvent {
                    id: row.parse("id")?,
                    delivery: row.required_text("delivery")?,
                    kind: row.required_text("kind")?,
                    body: row.required_text("body")?,
                    tries: row.required_number("tries")?,
                    not_before: row.parse_optional("not_before")?,
                    worker: row.parse_optional("worker")?,
                    worker_until: row.parse_optional("worker_until")?,
                })
            };
            query.fetch_all(&self.pool).await?.iter().map(read).collect()
        })
        .await
    }

    /// Takes an event to handle it, if no other process took it since the caller read it.
    pub async fn take_event(&self, event: &RawEvent, worker: &ProcessOwner, until: Moment) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(TAKE_EVENT).bind(event.id.to_string()).bind(worker.to_string()).bind(event.tries);
            let query = query.bind(until.to_string());
            Ok(query.execute(&self.pool).await?.rows_affected() == 1)
        })
        .await
    }

    /// Marks an event as handled, and records a description of the result.
    pub async fn finish_event(
        &self,
        event: MessageId,
        outcome: EventOutcome,
        description: &str,
    ) -> Result<(), StoreError> {
        self.write_event(FINISH_EVENT, event, outcome.to_string(), description).await
    }

    /// Postpones an event until `not_before`.
    pub async fn event_later(&self, event: MessageId, not_before: Moment, why: &str) -> Result<(), StoreError> {
        self.write_event(POSTPONE_EVENT, event, not_before.to_string(), why).await
    }

    async fn write_event(
        &self,
        statement: &'static str,
        event: MessageId,
        value: String,
        outcome: &str,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(event.to_string()).bind(value.clone()).bind(outcome.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Deletes handled events that arrived before `before`.
    pub async fn forget_events(&self, before: Moment) -> Result<u64, StoreError> {
        self.retry_while_disconnected(|| async {
            Ok(sqlx::query(DELETE_OLD_EVENTS).bind(before.to_string()).execute(&self.pool).await?.rows_affected())
        })
        .await
    }

    /// Returns the position up to which a platform was read.
    pub async fn find_mark(&self, platform: &str, name: &str) -> Result<Option<String>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(SELECT_MARK).bind(platform.to_owned()).bind(name.to_owned());
            let row = query.fetch_optional(&self.pool).await?;
            row.map(|row| RowReader { row: &row, table: "grove_marks" }.required_text("value")).transpose()
        })
        .await
    }

    /// Returns the state that each adapter reported, by platform.
    pub async fn adapter_states(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(ADAPTER_STATES).fetch_all(&self.pool).await?;
            let read = |row| {
                let row = RowReader { row, table: "grove_marks" };
                Ok((row.required_text("platform")?, row.required_text("value")?))
            };
            rows.iter().map(read).collect()
        })
        .await
    }

    /// Returns the number of events of a platform that are not handled yet.
    pub async fn unread_count(&self, platform: &str) -> Result<i64, StoreError> {
        self.count_rows(COUNT_UNREAD_EVENTS, platform).await
    }

    /// Returns the number of messages for a platform that are not sent yet.
    pub async fn unsent_count(&self, platform: &str) -> Result<i64, StoreError> {
        self.count_rows(COUNT_UNSENT_MESSAGES, platform).await
    }

    async fn count_rows(&self, query: &'static str, platform: &str) -> Result<i64, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(query).bind(platform.to_owned()).fetch_one(&self.pool).await?;
            RowReader { row: &row, table: EVENTS_TABLE }.required_number("many")
        })
        .await
    }

    pub async fn set_mark(&self, platform: &str, name: &str, value: &str) -> Result<(), StoreError> {
        self.write_mark(SET_MARK, platform, name, value).await
    }

    /// Sets a mark, unless it is set already.
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
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(platform.to_owned()).bind(name.to_owned()).bind(value.to_owned());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}
