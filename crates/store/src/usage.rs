//! `grove_usage`: the usage of the agents.

use grove_model::{ConversationId, Moment, Nonce};
use serde::{Deserialize, Serialize};

use crate::row::RowReader;
use crate::{InboxMessage, Store, StoreError};

const INSERT_USAGE: &str = "INSERT INTO grove_usage \
     (id, inbox_id, conversation_id, agent, input_tokens, output_tokens, cost_microdollars, created_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
// PostgreSQL's sum of numbers has another type.
const SUM_USAGE: &str = "SELECT CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens, \
     CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens, \
     CAST(COALESCE(SUM(cost_microdollars), 0) AS BIGINT) AS cost_microdollars \
     FROM grove_usage WHERE conversation_id = $1";

/// The usage of runs, as far as the agents reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_microdollars: i64,
}

impl AgentUsage {
    pub fn combine_with(self, other: AgentUsage) -> AgentUsage {
        AgentUsage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_microdollars: self.cost_microdollars.saturating_add(other.cost_microdollars),
        }
    }
}

impl Store {
    /// Adds the usage of a run that a message began.
    pub async fn add_usage(&self, message: &InboxMessage, agent: &str, usage: &AgentUsage) -> Result<(), StoreError> {
        if *usage == AgentUsage::default() {
            return Ok(());
        }
        // The id is chosen before the first attempt: a retry after a lost answer recognizes its own row by
        // it.
        let id = Nonce::new().to_string();
        self.retry_while_disconnected(|| async {
            sqlx::query(INSERT_USAGE)
                .bind(id.clone())
                .bind(message.id.to_string())
                .bind(message.conversation.to_string())
                .bind(agent.to_owned())
                .bind(usage.input_tokens)
                .bind(usage.output_tokens)
                .bind(usage.cost_microdollars)
                .bind(Moment::now().to_string())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    /// Returns the usage of a conversation.
    pub async fn conversation_usage(&self, conversation: ConversationId) -> Result<AgentUsage, StoreError> {
        self.retry_while_disconnected(|| async {
            let row = sqlx::query(SUM_USAGE).bind(conversation.to_string()).fetch_one(&self.pool).await?;
            let row = RowReader { row: &row, table: "grove_usage" };
            Ok(AgentUsage {
                input_tokens: row.required_number("input_tokens")?,
                output_tokens: row.required_number("output_tokens")?,
                cost_microdollars: row.required_number("cost_microdollars")?,
            })
        })
        .await
    }
}
