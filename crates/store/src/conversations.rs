//! `remote_agent_conversations`

use std::collections::HashMap;

use grove_model::{CodebaseId, ConversationId, EnvironmentId, Moment};
use sqlx::any::AnyRow;

use crate::row::Reader;
use crate::{Store, StoreError};

pub(crate) const CONVERSATIONS: &str = "remote_agent_conversations";

/// Also what makes it wait for a removal that begins at the same moment.
const USE: &str = "UPDATE remote_agent_isolation_environments SET last_activity_at = $2 \
     WHERE id = $1 AND status NOT IN ('removing', 'destroyed')";
const BIND: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, codebase_id, isolation_env_id, last_activity_at, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $6, $6) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET codebase_id = excluded.codebase_id, isolation_env_id = excluded.isolation_env_id, \
         last_activity_at = excluded.last_activity_at, updated_at = excluded.updated_at";
const OF_CODEBASE: &str = "SELECT c.isolation_env_id AS environment, c.platform_conversation_id AS conversation \
     FROM remote_agent_conversations c JOIN remote_agent_isolation_environments e ON e.id = c.isolation_env_id \
     WHERE e.codebase_id = $1 ORDER BY c.created_at, c.id";

pub(crate) const OF_ENVIRONMENT: &str = "SELECT id, platform_type, platform_conversation_id FROM remote_agent_conversations \
     WHERE isolation_env_id = $1 ORDER BY created_at, id";
const USES: &str = "SELECT c.id AS id, c.isolation_env_id AS environment, c.platform_type AS platform, \
     COALESCE(c.last_activity_at, c.updated_at) AS at \
     FROM remote_agent_conversations c JOIN remote_agent_isolation_environments e ON e.id = c.isolation_env_id \
     WHERE e.codebase_id = $1";
const BOUND: &str = "SELECT isolation_env_id FROM remote_agent_conversations \
     WHERE platform_type = $1 AND platform_conversation_id = $2";
const UNBIND: &str = "UPDATE remote_agent_conversations SET isolation_env_id = NULL, cwd = NULL, removed_branch = NULL, updated_at = $3 \
     WHERE platform_type = $1 AND platform_conversation_id = $2";
const END_SESSIONS: &str = "UPDATE remote_agent_sessions SET active = 0, ended_at = $3 WHERE active = 1 AND conversation_id IN \
     (SELECT id FROM remote_agent_conversations WHERE platform_type = $1 AND platform_conversation_id = $2)";
const CLEAR: &str = "UPDATE remote_agent_conversations SET isolation_env_id = NULL, cwd = NULL, updated_at = $2 \
     WHERE isolation_env_id = $1";

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

/// A conversation by the platform's own id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRef {
    pub platform: String,
    pub id: String,
}

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

impl Store {
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

    /// Says that a conversation works in an environment from now on. `false`: that environment is
    /// being removed, or is gone.
    pub async fn bind_conversation(
        &self,
        conversation: &ConversationRef,
        codebase: CodebaseId,
        environment: EnvironmentId,
    ) -> Result<bool, StoreError> {
        self.retry(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let used = sqlx::query(USE).bind(environment.to_string()).bind(Moment::now().to_string());
            if used.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            sqlx::query(BIND)
                .bind(ConversationId::new().to_string())
                .bind(conversation.platform.clone())
                .bind(conversation.id.clone())
                .bind(codebase.to_string())
                .bind(environment.to_string())
                .bind(Moment::now().to_string())
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// The environment that a conversation works in.
    pub async fn bound_environment(&self, conversation: &ConversationRef) -> Result<Option<EnvironmentId>, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(BOUND).bind(conversation.platform.clone()).bind(conversation.id.clone());
            let Some(row) = query.fetch_optional(&self.pool).await? else { return Ok(None) };
            Reader { row: &row, table: CONVERSATIONS }.parse_optional("isolation_env_id")
        })
        .await
    }

    /// The conversation works nowhere any more.
    pub async fn unbind_conversation(&self, conversation: &ConversationRef) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(UNBIND).bind(conversation.platform.clone()).bind(conversation.id.clone());
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Ends the sessions of a conversation.
    pub async fn end_sessions(&self, conversation: &ConversationRef) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(END_SESSIONS).bind(conversation.platform.clone()).bind(conversation.id.clone());
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Clears every conversation's reference to an environment that is no more.
    pub async fn clear_references(&self, environment: EnvironmentId) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(CLEAR).bind(environment.to_string()).bind(Moment::now().to_string());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// The conversations that work in an environment.
    pub async fn conversations_of(&self, environment: EnvironmentId) -> Result<Vec<ConversationRef>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(OF_ENVIRONMENT).bind(environment.to_string()).fetch_all(&self.pool).await?;
            Ok(read_bound(&rows)?.into_iter().map(|(_, conversation)| conversation).collect())
        })
        .await
    }

    /// The platforms that use each environment of a codebase, and when each conversation last did.
    pub async fn uses_in(
        &self,
        codebase: CodebaseId,
    ) -> Result<HashMap<EnvironmentId, Vec<(String, Moment)>>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(USES).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut found: HashMap<EnvironmentId, Vec<(String, Moment)>> = HashMap::new();
            for row in &rows {
                let row = Reader { row, table: CONVERSATIONS };
                let at = (row.text("platform")?, row.parse("at")?);
                found.entry(row.parse("environment")?).or_default().push(at);
            }
            Ok(found)
        })
        .await
    }

    /// The conversations in each environment of a codebase, by the platforms' own ids.
    pub async fn conversations_in(
        &self,
        codebase: CodebaseId,
    ) -> Result<HashMap<EnvironmentId, Vec<String>>, StoreError> {
        self.retry(|| async {
            let rows = sqlx::query(OF_CODEBASE).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut found: HashMap<EnvironmentId, Vec<String>> = HashMap::new();
            for row in &rows {
                let row = Reader { row, table: CONVERSATIONS };
                found.entry(row.parse("environment")?).or_default().push(row.text("conversation")?);
            }
            Ok(found)
        })
        .await
    }
}

/// Our ids and the platforms' of the conversations that [`OF_ENVIRONMENT`] finds.
pub(crate) fn read_bound(rows: &[AnyRow]) -> Result<Vec<(String, ConversationRef)>, StoreError> {
    let conversation = |row| {
        let row = Reader { row, table: CONVERSATIONS };
        let platforms =
            ConversationRef { platform: row.text("platform_type")?, id: row.text("platform_conversation_id")? };
        Ok((row.text("id")?, platforms))
    };
    rows.iter().map(conversation).collect()
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
