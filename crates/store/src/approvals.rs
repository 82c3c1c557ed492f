//! `grove_approvals`: scripts of a repository that a person allowed to run.

use grove_model::{CodebaseId, Moment};

use crate::row::RowReader;
use crate::{Store, StoreError};

const INSERT_APPROVAL: &str = "INSERT INTO grove_approvals (codebase_id, name, hash, content, approved_by, approved_at) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (codebase_id, name, hash) DO UPDATE SET approved_at = excluded.approved_at";
const FIND_APPROVAL: &str = "SELECT hash FROM grove_approvals WHERE codebase_id = $1 AND name = $2 AND hash = $3";
const LAST_APPROVAL: &str = "SELECT content FROM grove_approvals WHERE codebase_id = $1 AND name = $2 \
     ORDER BY approved_at DESC LIMIT 1";

impl Store {
    /// Records that a person approved a script's content.
    pub async fn approve(
        &self,
        codebase: CodebaseId,
        name: &str,
        hash: &str,
        content: &str,
        by: Option<&str>,
    ) -> Result<(), StoreError> {
        // PostgreSQL holds no NUL characters.
        let content = content.replace('\0', "\u{fffd}");
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(INSERT_APPROVAL).bind(codebase.to_string()).bind(name.to_owned());
            let query = query.bind(hash.to_owned()).bind(content.clone()).bind(by.map(str::to_owned));
            query.bind(Moment::now().to_string()).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn is_approved(&self, codebase: CodebaseId, name: &str, hash: &str) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(FIND_APPROVAL).bind(codebase.to_string()).bind(name.to_owned());
            Ok(query.bind(hash.to_owned()).fetch_optional(&self.pool).await?.is_some())
        })
        .await
    }

    /// Returns the content of this script that was approved last.
    pub async fn last_approved(&self, codebase: CodebaseId, name: &str) -> Result<Option<String>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(LAST_APPROVAL).bind(codebase.to_string()).bind(name.to_owned());
            let row = query.fetch_optional(&self.pool).await?;
            row.map(|row| RowReader { row: &row, table: "grove_approvals" }.required_text("content")).transpose()
        })
        .await
    }
}
