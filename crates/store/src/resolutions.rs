//! `grove_resolutions`: why a work is where it is

use grove_model::{EnvironmentId, Moment};

use crate::{Store, StoreError};

const KEEP: &str = "INSERT INTO grove_resolutions (environment_id, at, steps) VALUES ($1, $2, $3) \
     ON CONFLICT (environment_id) DO UPDATE SET at = excluded.at, steps = excluded.steps \
     WHERE grove_resolutions.steps <> excluded.steps";
const LAST: &str = "SELECT steps FROM grove_resolutions WHERE environment_id = $1";

impl Store {
    /// Keeps the last resolution that chose an environment, as JSON; the same one again writes nothing.
    pub async fn keep_resolution(&self, environment: EnvironmentId, steps: &str) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(KEEP).bind(environment.to_string()).bind(Moment::now().to_string());
            query.bind(steps.to_owned()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn resolution(&self, environment: EnvironmentId) -> Result<Option<String>, StoreError> {
        self.retry(|| async {
            Ok(sqlx::query_scalar(LAST).bind(environment.to_string()).fetch_optional(&self.pool).await?)
        })
        .await
    }
}
