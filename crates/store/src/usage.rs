//! `grove_usage`: what the agents took.

use grove_model::{ConversationId, Moment, Nonce};
use serde::{Deserialize, Serialize};

use crate::row::Reader;
use crate::{Message, Store, StoreError};

const ADD: &str = "INSERT INTO grove_usage \
     (id, inbox_id, conversation_id, agent, input_tokens, output_tokens, cost_microdollars, created_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING";
// PostgreSQL's sum of numbers is of another type.
const SUM: &str = "SELECT CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input_tokens, \
     CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output_tokens, \
     CAST(COALESCE(SUM(cost_microdollars), 0) AS BIGINT) AS cost_microdollars \
     FROM grove_usage WHERE conversation_id = $1";

/// What runs took, as far as the agents told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_microdollars: i64,
}

impl Usage {
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_microdollars: self.cost_microdollars.saturating_add(other.cost_microdollars),
        }
    }
}

impl Store {
    /// Adds what a run took that a message began.
    pub async fn add_usage(&self, message: &Message, agent: &str, usage: &Usage) -> Result<(), StoreError> {
        if *usage == Usage::default() {
            return Ok(());
        }
        // Named before the first try: a try whose answer was lost is known again by it.
        let id = Nonce::new().to_string();
        self.retry(|| async {
            sqlx::query(ADD)
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

    /// What a conversation has taken.
    pub async fn usage(&self, conversation: ConversationId) -> Result<Usage, StoreError> {
        self.retry(|| async {
            let row = sqlx::query(SUM).bind(conversation.to_string()).fetch_one(&self.pool).await?;
            let row = Reader { row: &row, table: "grove_usage" };
            Ok(Usage {
                input_tokens: row.number("input_tokens")?,
                output_tokens: row.number("output_tokens")?,
                cost_microdollars: row.number("cost_microdollars")?,
            })
        })
        .await
    }
}
