//! Request bodies.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::ServerState;
use super::fault::HttpError;
use crate::words;

/// The size of the largest request, except for webhooks.
const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// The time that a body may take to arrive, however steadily it does.
const WHOLE_BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of bytes to read of a request that is too large, so that its sender gets the answer.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;

/// A JSON body, whatever its content type.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<ServerState>> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, app: &Arc<ServerState>) -> Result<Self, HttpError> {
        let stalled = app.conversations.settings.current().body_timeout();
        let timeouts = BodyReadTimeouts { whole: WHOLE_BODY_TIMEOUT.max(stalled), stalled };
        let bytes = read_body(request, MAX_BODY_BYTES, timeouts).await?;
        serde_json::from_slice(&bytes).map(JsonBody).map_err(|error| words::bad_json(&error).into())
    }
}

/// The time limits for a body to arrive.
#[derive(Clone, Copy, Debug)]
pub struct BodyReadTimeouts {
    pub whole: Duration,
    /// The limit until the next byte.
    pub stalled: Duration,
}

/// Returns the whole body of a request, if it is not larger than `limit` and arrives in time.
pub async fn read_body(request: Request, limit: usize, time: BodyReadTimeouts) -> Result<Vec<u8>, HttpError> {
    tokio::time::timeout(time.whole, read_body_chunks(request, limit, time.stalled))
        .await
        .unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> HttpError {
    HttpError::new(StatusCode::REQUEST_TIMEOUT, words::body_too_slow())
}

async fn read_body_chunks(request: Request, limit: usize, stalled: Duration) -> Result<Vec<u8>, HttpError> {
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    let mut stream = request.into_body().into_data_stream();
    let (mut bytes, mut seen) = (Vec::with_capacity(if announced > limit { 0 } else { announced }), 0);
    while let Some(piece) = tokio::time::timeout(stalled, stream.next()).await.map_err(|_| too_slow())? {
        let piece = piece.map_err(|error| words::body_cut_short(&error))?;
        seen += piece.len();
        if seen <= limit && announced <= limit {
            bytes.extend_from_slice(&piece);
        } else {
            // The request is too large: its body is no longer kept.
            bytes = Vec::new();
        }
        if seen > MAX_DRAINED_BYTES {
            break;
        }
    }
    if seen > limit {
        return Err(words::body_too_large(limit).into());
    }
    Ok(bytes)
}
