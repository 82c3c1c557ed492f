//! Tests with one write whether the store takes writes.

use grove_model::Moment;

use crate::events::SET_MARK;
use crate::{Store, StoreError};

/// With less free space than this on its disk, a store fails at any moment, even if it still finds a page for
/// one small write in its existing files.
const MIN_FREE_BYTES: u64 = 1024 * 1024;

impl Store {
    /// Writes one row, always the same one. Fails while the store takes no writes; does not retry.
    pub async fn probe_write(&self) -> Result<(), StoreError> {
        if let Some(file) = &self.file {
            let disk = rustix::fs::statvfs(file.as_path())
                .map_err(|error| StoreError::Unopenable { path: file.clone(), why: error.to_string() })?;
            if disk.f_bavail * disk.f_frsize < MIN_FREE_BYTES {
                return Err(StoreError::Other("the store's disk is full".to_owned()));
            }
        }
        let query = sqlx::query(SET_MARK).bind("grove").bind("write_probe").bind(Moment::now().to_string());
        query.execute(&self.pool).await?;
        Ok(())
    }
}
