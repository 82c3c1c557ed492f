//! `remote_agent_conversations`

use std::collections::HashMap;

use grove_model::{CodebaseId, ConversationId, EnvironmentId, Moment};
use sqlx::any::AnyRow;

use crate::row::RowReader;
use crate::{Store, StoreError};

pub(crate) const CONVERSATIONS_TABLE: &str = "remote_agent_conversations";

/// Also makes the binding wait for a removal that begins at the same moment.
const TOUCH_LIVE_ENVIRONMENT: &str = "UPDATE remote_agent_isolation_environments SET last_activity_at = $2 \
     WHERE id = $1 AND status NOT IN ('removing', 'destroyed')";
const BIND_CONVERSATION: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, codebase_id, isolation_env_id, last_activity_at, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $6, $6) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET codebase_id = excluded.codebase_id, isolation_env_id = excluded.isolation_env_id, \
         last_activity_at = excluded.last_activity_at, updated_at = excluded.updated_at";
const CONVERSATIONS_OF_CODEBASE: &str = "SELECT c.isolation_env_id AS environment, c.platform_conversation_id AS conversation \
     FROM remote_agent_conversations c JOIN remote_agent_isolation_environments e ON e.id = c.isolation_env_id \
     WHERE e.codebase_id = $1 ORDER BY c.created_at, c.id";

pub(crate) const CONVERSATIONS_OF_ENVIRONMENT: &str = "SELECT id, platform_type, platform_conversation_id FROM remote_agent_conversations \
     WHERE isolation_env_id = $1 ORDER BY created_at, id";
const ENVIRONMENT_USES_OF_CODEBASE: &str = "SELECT c.id AS id, c.isolation_env_id AS environment, c.platform_type AS platform, \
     COALESCE(c.last_activity_at, c.updated_at) AS at \
     FROM remote_agent_conversations c JOIN remote_agent_isolation_environments e ON e.id = c.isolation_env_id \
     WHERE e.codebase_id = $1";
const BOUND_ENVIRONMENT: &str = "SELECT isolation_env_id FROM remote_agent_conversations \
     WHERE platform_type = $1 AND platform_conversation_id = $2";
const UNBIND_CONVERSATION: &str = "UPDATE remote_agent_conversations SET isolation_env_id = NULL, cwd = NULL, removed_branch = NULL, updated_at = $3 \
     WHERE platform_type = $1 AND platform_conversation_id = $2";
const END_CONVERSATION_SESSIONS: &str = "UPDATE remote_agent_sessions SET active = 0, ended_at = $3 WHERE active = 1 AND conversation_id IN \
     (SELECT id FROM remote_agent_conversations WHERE platform_type = $1 AND platform_conversation_id = $2)";
const CLEAR_ENVIRONMENT_REFERENCES: &str = "UPDATE remote_agent_conversations SET isolation_env_id = NULL, cwd = NULL, updated_at = $2 \
     WHERE isolation_env_id = $1";

macro_rules! conversations {
    ($rest:literal) => {
        concat!(
            "SELECT id, platform_type, platform_conversation_id, codebase_id, cwd, isolation_env_id, ai_assistant_type, \
             last_activity_at, removed_branch, title, parent_conversation_id FROM remote_agent_conversations ",
            $rest
        )
    };
}

const CONVERSATION_BY_ID: &str = conversations!("WHERE id = $1");
const CONVERSATIONS_BY_PLATFORM_ID: &str =
    conversations!("WHERE platform_conversation_id = $1 ORDER BY created_at, id");
const RECENT_CONVERSATIONS: &str = conversations!("WHERE platform_type = $1 ORDER BY last_activity_at DESC LIMIT 50");
const SET_CONVERSATION_CODEBASE: &str = "UPDATE remote_agent_conversations \
     SET codebase_id = $2, isolation_env_id = NULL, cwd = NULL, updated_at = $3 WHERE id = $1";
const SET_CHANNEL_CODEBASE: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, codebase_id, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET codebase_id = excluded.codebase_id, isolation_env_id = NULL, cwd = NULL, updated_at = excluded.updated_at";
const SET_CHANNEL_AGENT: &str = "INSERT INTO remote_agent_conversations \
     (id, platform_type, platform_conversation_id, ai_assistant_type, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5) \
     ON CONFLICT (platform_type, platform_conversation_id) DO UPDATE \
     SET ai_assistant_type = excluded.ai_assistant_type, updated_at = excluded.updated_at";
const SET_CONVERSATION_CWD: &str = "UPDATE remote_agent_conversations SET cwd = $2, updated_at = $3 WHERE id = $1";
const SET_REMOVED_BRANCH: &str =
    "UPDATE remote_agent_conversations SET removed_branch = $2, updated_at = $3 WHERE id = $1";
const SET_CONVERSATION_AGENT: &str =
    "UPDATE remote_agent_conversations SET ai_assistant_type = $2, updated_at = $3 WHERE id = $1";

/// A conversation, identified by the platform's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRef {
    pub platform: String,
    pub id: String,
}

/// A conversation on a platform.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub id: ConversationId,
    pub platform: String,
    /// The platform's id.
    pub name: String,
    pub codebase: Option<CodebaseId>,
    pub cwd: Option<String>,
    pub environment: Option<EnvironmentId>,
    pub agent: Option<String>,
    pub last_activity_at: Option<Moment>,
    /// The branch of its former worktree, which was removed; the conversation is told at its next message.
    pub removed_branch: Option<String>,
    /// The conversation in a few words.
    pub title: Option<String>,
    /// The platform's id of the channel that contains the thread.
    pub parent: Option<String>,
}

impl Conversation {
    pub fn conversation_ref(&self) -> ConversationRef {
        ConversationRef { platform: self.platform.clone(), id: self.name.clone() }
    }
}

impl Store {
    pub async fn find_conversation(&self, id: ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(CONVERSATION_BY_ID).bind(id.to_string()).fetch_optional(&self.pool).await?;
            row.as_ref().map(read_conversation).transpose()
        })
        .await
    }

    /// Returns the conversations with this id, on any platform.
    pub async fn conversations_called(&self, name: &str) -> Result<Vec<Conversation>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(CONVERSATIONS_BY_PLATFORM_ID).bind(name.to_owned()).fetch_all(&self.pool).await?;
            rows.iter().map(read_conversation).collect()
        })
        .await
    }

    /// Returns the latest conversations of a platform.
    pub async fn recent_conversations(&self, platform: &str) -> Result<Vec<Conversation>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(RECENT_CONVERSATIONS).bind(platform.to_owned()).fetch_all(&self.pool).await?;
            rows.iter().map(read_conversation).collect()
        })
        .await
    }

    /// Chooses a conversation's codebase; the conversation has no environment until its next message.
    pub async fn choose_codebase(&self, id: ConversationId, codebase: CodebaseId) -> Result<(), StoreError> {
        self.set_conversation_field(SET_CONVERSATION_CODEBASE, id, Some(codebase.to_string())).await
    }

    pub async fn choose_cwd(&self, id: ConversationId, cwd: Option<&str>) -> Result<(), StoreError> {
        self.set_conversation_field(SET_CONVERSATION_CWD, id, cwd.map(str::to_owned)).await
    }

    /// Records that the conversation was told about the removal of its worktree.
    pub async fn told_of_removal(&self, id: ConversationId) -> Result<(), StoreError> {
        self.set_conversation_field(SET_REMOVED_BRANCH, id, None).await
    }

    pub async fn choose_agent(&self, id: ConversationId, agent: Option<&str>) -> Result<(), StoreError> {
        self.set_conversation_field(SET_CONVERSATION_AGENT, id, agent.map(str::to_owned)).await
    }

    /// Chooses the codebase that new threads of a channel begin with.
    pub async fn choose_channel_codebase(
        &self,
        channel: &ConversationRef,
        codebase: CodebaseId,
    ) -> Result<(), StoreError> {
        self.set_channel_field(SET_CHANNEL_CODEBASE, channel, codebase.to_string()).await
    }

    /// Chooses the agent that new threads of a channel begin with.
    pub async fn choose_channel_agent(&self, channel: &ConversationRef, agent: &str) -> Result<(), StoreError> {
        self.set_channel_field(SET_CHANNEL_AGENT, channel, agent.to_owned()).await
    }

    async fn set_channel_field(
        &self,
        statement: &'static str,
        channel: &ConversationRef,
        value: String,
    ) -> Result<(), StoreError> {
        let fresh = ConversationId::new();
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(fresh.to_string()).bind(channel.platform.clone());
            let query = query.bind(channel.id.clone()).bind(value.clone()).bind(Moment::now().to_string());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    async fn set_conversation_field(
        &self,
        statement: &'static str,
        id: ConversationId,
        value: Option<String>,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(statement).bind(id.to_string()).bind(value.clone());
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Binds a conversation to an environment. Returns `false` if the environment is being removed, or is
    /// gone.
    pub async fn bind_conversation(
        &self,
        conversation: &ConversationRef,
        codebase: CodebaseId,
        environment: EnvironmentId,
    ) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            let used =
                sqlx::query(TOUCH_LIVE_ENVIRONMENT).bind(environment.to_string()).bind(Moment::now().to_string());
            if used.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            sqlx::query(BIND_CONVERSATION)
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

    /// Returns the environment that a conversation works in.
    pub async fn bound_environment(&self, conversation: &ConversationRef) -> Result<Option<EnvironmentId>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query =
                sqlx::query(BOUND_ENVIRONMENT).bind(conversation.platform.clone()).bind(conversation.id.clone());
            let Some(row) = query.fetch_optional(&self.pool).await? else { return Ok(None) };
            RowReader { row: &row, table: CONVERSATIONS_TABLE }.parse_optional("isolation_env_id")
        })
        .await
    }

    /// Unbinds a conversation from its environment.
    pub async fn unbind_conversation(&self, conversation: &ConversationRef) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query =
                sqlx::query(UNBIND_CONVERSATION).bind(conversation.platform.clone()).bind(conversation.id.clone());
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Ends the sessions of a conversation.
    pub async fn end_sessions(&self, conversation: &ConversationRef) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(END_CONVERSATION_SESSIONS)
                .bind(conversation.platform.clone())
                .bind(conversation.id.clone());
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Clears every conversation's reference to an environment that no longer exists.
    pub async fn clear_references(&self, environment: EnvironmentId) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query =
                sqlx::query(CLEAR_ENVIRONMENT_REFERENCES).bind(environment.to_string()).bind(Moment::now().to_string());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Returns the conversations that work in an environment.
    pub async fn conversations_of(&self, environment: EnvironmentId) -> Result<Vec<ConversationRef>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows =
                sqlx::query(CONVERSATIONS_OF_ENVIRONMENT).bind(environment.to_string()).fetch_all(&self.pool).await?;
            Ok(read_bound(&rows)?.into_iter().map(|(_, conversation)| conversation).collect())
        })
        .await
    }

    /// Returns the platforms that use each environment of a codebase, and the time of each conversation's
    /// last use.
    pub async fn uses_in(
        &self,
        codebase: CodebaseId,
    ) -> Result<HashMap<EnvironmentId, Vec<(String, Moment)>>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows =
                sqlx::query(ENVIRONMENT_USES_OF_CODEBASE).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut found: HashMap<EnvironmentId, Vec<(String, Moment)>> = HashMap::new();
            for row in &rows {
                let row = RowReader { row, table: CONVERSATIONS_TABLE };
                let at = (row.required_text("platform")?, row.parse("at")?);
                found.entry(row.parse("environment")?).or_default().push(at);
            }
            Ok(found)
        })
        .await
    }

    /// Returns the conversations in each environment of a codebase, by the platforms' ids.
    pub async fn conversations_in(
        &self,
        codebase: CodebaseId,
    ) -> Result<HashMap<EnvironmentId, Vec<String>>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(CONVERSATIONS_OF_CODEBASE).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut found: HashMap<EnvironmentId, Vec<String>> = HashMap::new();
            for row in &rows {
                let row = RowReader { row, table: CONVERSATIONS_TABLE };
                found.entry(row.parse("environment")?).or_default().push(row.required_text("conversation")?);
            }
            Ok(found)
        })
        .await
    }
}

/// Returns our ids and the platforms' ids of the conversations that [`CONVERSATIONS_OF_ENVIRONMENT`] finds.
pub(crate) fn read_bound(rows: &[AnyRow]) -> Result<Vec<(String, ConversationRef)>, StoreError> {
    let conversation = |row| {
        let row = RowReader { row, table: CONVERSATIONS_TABLE };
        let platforms = ConversationRef {
            platform: row.required_text("platform_type")?,
            id: row.required_text("platform_conversation_id")?,
        };
        Ok((row.required_text("id")?, platforms))
    };
    rows.iter().map(conversation).collect()
}

fn read_conversation(row: &AnyRow) -> Result<Conversation, StoreError> {
    let row = RowReader { row, table: CONVERSATIONS_TABLE };
    Ok(Conversation {
        id: row.parse("id")?,
        platform: row.required_text("platform_type")?,
        name: row.required_text("platform_conversation_id")?,
        codebase: row.parse_optional("codebase_id")?,
        cwd: row.optional_text("cwd")?,
        environment: row.parse_optional("isolation_env_id")?,
        agent: row.optional_text("ai_assistant_type")?,
        last_activity_at: row.parse_optional("last_activity_at")?,
        removed_branch: row.optional_text("removed_branch")?,
        parent: row.optional_text("parent_conversation_id")?,
        title: row.optional_text("title")?,
    })
}
