//! `grove_resolutions`: why a work is in its environment

use grove_model::{EnvironmentId, Moment};

use crate::{Store, StoreError};

const INSERT_RESOLUTION: &str = "INSERT INTO grove_resolutions (environment_id, at, steps) VALUES ($1, $2, $3) \
     ON CONFLICT (environment_id) DO UPDATE SET at = excluded.at, steps = excluded.steps \
     WHERE grove_resolutions.steps <> excluded.steps";
const LAST_RESOLUTION: &str = "SELECT steps FROM grove_resolutions WHERE environment_id = $1";

impl Store {
    /// Stores the last resolution that chose an environment, as JSON; an unchanged one writes nothing.
    pub async fn keep_resolution(&self, environment: EnvironmentId, steps: &str) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(INSERT_RESOLUTION).bind(environment.to_string()).bind(Moment::now().to_string());
            query.bind(steps.to_owned()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn last_resolution(&self, environment: EnvironmentId) -> Result<Option<String>, StoreError> {
        self.retry_while_disconnected(|| async {
            Ok(sqlx::query_scalar(LAST_RESOLUTION).bind(environment.to_string()).fetch_optional(&self.pool).await?)
        })
        .await
    }
}
