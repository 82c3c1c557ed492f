//! Reads rows: the error for a column that does not parse names its row.

use std::fmt::Display;
use std::str::FromStr;

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::StoreError;

pub(crate) struct RowReader<'a> {
    pub row: &'a AnyRow,
    pub table: &'static str,
}

impl RowReader<'_> {
    pub fn required_text(&self, column: &str) -> Result<String, StoreError> {
        self.row.try_get(column).map_err(|error| self.invalid_value_error(column, &error))
    }

    pub fn optional_text(&self, column: &str) -> Result<Option<String>, StoreError> {
        self.row.try_get(column).map_err(|error| self.invalid_value_error(column, &error))
    }

    pub fn required_number(&self, column: &str) -> Result<i64, StoreError> {
        self.row.try_get(column).map_err(|error| self.invalid_value_error(column, &error))
    }

    pub fn optional_number(&self, column: &str) -> Result<Option<i64>, StoreError> {
        self.row.try_get(column).map_err(|error| self.invalid_value_error(column, &error))
    }

    pub fn parse<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, StoreError> {
        self.required_text(column)?.parse().map_err(|error: T::Err| self.invalid_value_error(column, &error))
    }

    pub fn parse_optional<T: FromStr<Err: Display>>(&self, column: &str) -> Result<Option<T>, StoreError> {
        let text = self.optional_text(column)?;
        text.map(|text| text.parse().map_err(|error: T::Err| self.invalid_value_error(column, &error))).transpose()
    }

    pub fn invalid_value_error(&self, column: &str, why: &dyn Display) -> StoreError {
        let id = self.row.try_get("id").unwrap_or_else(|_| "without id".to_owned());
        StoreError::Row { table: self.table, id, why: format!("{column}: {why}") }
    }
}
