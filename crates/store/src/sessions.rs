//! `remote_agent_sessions`

use grove_model::{ConversationId, Moment, Nonce};
use serde::{Deserialize, Serialize};

use crate::row::Reader;
use crate::{Store, StoreError, Usage};

const ACTIVE: &str = "SELECT id, ai_assistant_type, assistant_session_id, metadata FROM remote_agent_sessions \
     WHERE conversation_id = $1 AND active = 1 ORDER BY started_at DESC LIMIT 1";
const END: &str =
    "UPDATE remote_agent_sessions SET active = 0, ended_at = $2 WHERE conversation_id = $1 AND active = 1 AND id <> $3";
const START: &str = "INSERT INTO remote_agent_sessions \
     (id, conversation_id, ai_assistant_type, assistant_session_id, active, metadata, started_at) \
     VALUES ($1, $2, $3, $4, 1, $5, $6) ON CONFLICT (id) DO NOTHING";

const KEEP: &str = "UPDATE remote_agent_sessions SET assistant_session_id = $2, metadata = $3 WHERE id = $1";

/// One run history of one agent in one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    pub agent: String,
    /// The agent's own name for it.
    pub assistant_id: Option<String>,
    pub facts: SessionFacts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionFacts {
    pub last_command: Option<String>,
    /// Where it runs; an agent's memory belongs to a place.
    pub cwd: Option<String>,
    /// The agent has said that it is in it.
    pub begun: bool,
    /// What its runs have taken.
    pub taken: Usage,
}

impl Store {
    pub async fn session(&self, conversation: ConversationId) -> Result<Option<Session>, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(ACTIVE).bind(conversation.to_string()).fetch_optional(&self.pool).await?;
            let Some(row) = row else { return Ok(None) };
            let row = Reader { row: &row, table: "remote_agent_sessions" };
            let facts =
                serde_json::from_str(&row.text("metadata")?).map_err(|error| row.nonsense("metadata", &error))?;
            Ok(Some(Session {
                id: row.text("id")?,
                agent: row.text("ai_assistant_type")?,
                assistant_id: row.optional_text("assistant_session_id")?,
                facts,
            }))
        })
        .await
    }

    /// Keeps what is known of a session.
    pub async fn keep_session(&self, session: &Session) -> Result<(), StoreError> {
        self.retry(|| async {
            let keep = sqlx::query(KEEP).bind(session.id.clone()).bind(session.assistant_id.clone());
            keep.bind(text(&session.facts)?).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Begins a session in a place, under the name that was chosen for it; whatever was there before
    /// has ended.
    pub async fn start_session(
        &self,
        conversation: ConversationId,
        agent: &str,
        cwd: &str,
        assistant_id: Option<String>,
    ) -> Result<Session, StoreError> {
        let facts = SessionFacts { last_command: None, cwd: Some(cwd.to_owned()), ..SessionFacts::default() };
        let session = Session { id: Nonce::new().to_string(), agent: agent.to_owned(), assistant_id, facts };
        self.retry(|| async {
            let now = Moment::now().to_string();
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let end = sqlx::query(END).bind(conversation.to_string()).bind(now.clone()).bind(session.id.clone());
            end.execute(&mut *transaction).await?;
            sqlx::query(START)
                .bind(session.id.clone())
                .bind(conversation.to_string())
                .bind(session.agent.clone())
                .bind(session.assistant_id.clone())
                .bind(text(&session.facts)?)
                .bind(now)
                .execute(&mut *transaction)
                .await?;
            Ok(transaction.commit().await?)
        })
        .await?;
        Ok(session)
    }
}

fn text(facts: &SessionFacts) -> Result<String, StoreError> {
    serde_json::to_string(facts).map_err(|error| StoreError::Other(error.to_string()))
}
