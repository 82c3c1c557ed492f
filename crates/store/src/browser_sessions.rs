//! `grove_login_links` and `grove_browser_sessions`: the browsers that may use the page.
//!
//! Ids are digests: a reader of the store learns nothing that grants access.

use grove_model::Moment;

use crate::outbox::StoreTransaction;
use crate::{Store, StoreError};

const INSERT_LOGIN_LINK: &str =
    "INSERT INTO grove_login_links (id, host, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
const USE_LOGIN_LINK: &str = "DELETE FROM grove_login_links WHERE id = $1 AND host = $2 AND expires_at > $3";
const INSERT_BROWSER_SESSION: &str =
    "INSERT INTO grove_browser_sessions (id, host, created_at, expires_at) VALUES ($1, $2, $3, $4)";
const SELECT_BROWSER_SESSION: &str =
    "SELECT CAST(1 AS BIGINT) FROM grove_browser_sessions WHERE id = $1 AND host = $2 AND expires_at > $3";
const DELETE_BROWSER_SESSION: &str = "DELETE FROM grove_browser_sessions WHERE id = $1";
const DELETE_ALL_BROWSER_SESSIONS: &str = "DELETE FROM grove_browser_sessions";
const DELETE_EXPIRED_LOGINS: [&str; 2] = [
    "DELETE FROM grove_login_links WHERE expires_at <= $1",
    "DELETE FROM grove_browser_sessions WHERE expires_at <= $1",
];

/// A browser session that is about to begin.
#[derive(Clone, Debug)]
pub struct NewBrowserSession {
    pub id: String,
    pub host: String,
    pub created_at: Moment,
    pub expires_at: Moment,
}

impl Store {
    /// Stores a link that grants one browser access under `host`, once.
    pub async fn add_login_link(&self, id: &str, host: &str, expires_at: Moment) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            delete_expired(&mut transaction, Moment::now()).await?;
            let link =
                sqlx::query(INSERT_LOGIN_LINK).bind(id.to_owned()).bind(host.to_owned()).bind(expires_at.to_string());
            link.execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Uses a link up and begins the session. Returns `false` if the link was used before, is too old, or is
    /// for another host; then no session began.
    pub async fn open_browser_session(&self, link: &str, session: &NewBrowserSession) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let now = session.created_at;
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let used =
                sqlx::query(USE_LOGIN_LINK).bind(link.to_owned()).bind(session.host.clone()).bind(now.to_string());
            if used.execute(&mut *transaction).await?.rows_affected() == 0 {
                // An earlier attempt whose answer was lost has already begun the session.
                drop(transaction);
                return self.find_browser_session(&session.id, &session.host, now).await;
            }
            delete_expired(&mut transaction, now).await?;
            let added = sqlx::query(INSERT_BROWSER_SESSION)
                .bind(session.id.clone())
                .bind(session.host.clone())
                .bind(now.to_string())
                .bind(session.expires_at.to_string());
            added.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Tells whether a session is valid under `host` at that moment.
    pub async fn has_browser_session(&self, id: &str, host: &str, now: Moment) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| self.find_browser_session(id, host, now)).await
    }

    async fn find_browser_session(&self, id: &str, host: &str, now: Moment) -> Result<bool, StoreError> {
        let query = sqlx::query(SELECT_BROWSER_SESSION).bind(id.to_owned()).bind(host.to_owned()).bind(now.to_string());
        Ok(query.fetch_optional(&self.pool).await?.is_some())
    }

    /// Ends one session, or all of them; returns the number of ended sessions.
    pub async fn end_browser_sessions(&self, only: Option<&str>) -> Result<u64, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = match only {
                Some(id) => sqlx::query(DELETE_BROWSER_SESSION).bind(id.to_owned()),
                None => sqlx::query(DELETE_ALL_BROWSER_SESSIONS),
            };
            Ok(query.execute(&self.pool).await?.rows_affected())
        })
        .await
    }
}

async fn delete_expired(transaction: &mut StoreTransaction<'_>, now: Moment) -> Result<(), StoreError> {
    for statement in DELETE_EXPIRED_LOGINS {
        sqlx::query(statement).bind(now.to_string()).execute(&mut **transaction).await?;
    }
    Ok(())
}
