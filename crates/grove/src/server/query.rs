//! Query parameters.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::fault::HttpError;
use crate::words;

/// The query parameters of a request, as [`Query`] reads them, with our own refusal.
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(params)| Self(params)).map_err(|rejection| words::bad_query(&rejection.body_text()).into())
    }
}
