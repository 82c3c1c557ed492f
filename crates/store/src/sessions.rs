//! `remote_agent_sessions`

use grove_model::{ConversationId, Moment, Nonce};
use serde::{Deserialize, Serialize};

use crate::row::RowReader;
use crate::{AgentUsage, Store, StoreError};

const ACTIVE_SESSION: &str = "SELECT id, ai_assistant_type, assistant_session_id, metadata FROM remote_agent_sessions \
     WHERE conversation_id = $1 AND active = 1 ORDER BY started_at DESC LIMIT 1";
const END_OTHER_SESSIONS: &str =
    "UPDATE remote_agent_sessions SET active = 0, ended_at = $2 WHERE conversation_id = $1 AND active = 1 AND id <> $3";
const INSERT_SESSION: &str = "INSERT INTO remote_agent_sessions \
     (id, conversation_id, ai_assistant_type, assistant_session_id, active, metadata, started_at) \
     VALUES ($1, $2, $3, $4, 1, $5, $6) ON CONFLICT (id) DO NOTHING";

const UPDATE_SESSION: &str = "UPDATE remote_agent_sessions SET assistant_session_id = $2, metadata = $3 WHERE id = $1";

/// The history of one agent's runs in one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSession {
    pub id: String,
    pub agent: String,
    /// The agent's own id of the session.
    pub assistant_id: Option<String>,
    pub facts: SessionFacts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionFacts {
    pub last_command: Option<String>,
    /// The directory that it runs in; an agent's memory belongs to a directory.
    pub cwd: Option<String>,
    /// The agent has confirmed that it runs in this session.
    pub begun: bool,
    /// The usage of its runs.
    pub taken: AgentUsage,
}

impl Store {
    pub async fn active_session(&self, conversation: ConversationId) -> Result<Option<AgentSession>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(ACTIVE_SESSION).bind(conversation.to_string()).fetch_optional(&self.pool).await?;
            let Some(row) = row else { return Ok(None) };
            let row = RowReader { row: &row, table: "remote_agent_sessions" };
            let facts = serde_json::from_str(&row.required_text("metadata")?)
                .map_err(|error| row.invalid_value_error("metadata", &error))?;
            Ok(Some(AgentSession {
                id: row.required_text("id")?,
                agent: row.required_text("ai_assistant_type")?,
                assistant_id: row.optional_text("assistant_session_id")?,
                facts,
            }))
        })
        .await
    }

    /// Stores the known facts about a session.
    pub async fn keep_session(&self, session: &AgentSession) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let keep = sqlx::query(UPDATE_SESSION).bind(session.id.clone()).bind(session.assistant_id.clone());
            keep.bind(serialize_facts(&session.facts)?).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Begins a session in a directory, under the chosen id; an earlier session there has ended.
    pub async fn start_session(
        &self,
        conversation: ConversationId,
        agent: &str,
        cwd: &str,
        assistant_id: Option<String>,
    ) -> Result<AgentSession, StoreError> {
        let facts = SessionFacts { last_command: None, cwd: Some(cwd.to_owned()), ..SessionFacts::default() };
        let session = AgentSession { id: Nonce::new().to_string(), agent: agent.to_owned(), assistant_id, facts };
        self.retry_while_disconnected(|| async {
            let now = Moment::now().to_string();
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let end = sqlx::query(END_OTHER_SESSIONS)
                .bind(conversation.to_string())
                .bind(now.clone())
                .bind(session.id.clone());
            end.execute(&mut *transaction).await?;
            sqlx::query(INSERT_SESSION)
                .bind(session.id.clone())
                .bind(conversation.to_string())
                .bind(session.agent.clone())
                .bind(session.assistant_id.clone())
                .bind(serialize_facts(&session.facts)?)
                .bind(now)
                .execute(&mut *transaction)
                .await?;
            Ok(transaction.commit().await?)
        })
        .await?;
        Ok(session)
    }
}

fn serialize_facts(facts: &SessionFacts) -> Result<String, StoreError> {
    serde_json::to_string(facts).map_err(|error| StoreError::Other(error.to_string()))
}
