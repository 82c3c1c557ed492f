//! Request bodies.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use futures_util::StreamExt;
use grove_environments::problem::Problem;
use serde::de::DeserializeOwned;

use super::fault::HttpError;

/// The size of the largest request, except for webhooks.
const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// The number of bytes to read of a request that is too large, so that its sender gets the answer.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;

/// A JSON body, whatever its content type.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, _: &S) -> Result<Self, HttpError> {
        let bytes = read_body(request, MAX_BODY_BYTES, BODY_READ_TIMEOUTS).await?;
        serde_json::from_slice(&bytes).map(JsonBody).map_err(|error| {
            let message = format!("The request is not the JSON that was expected: {error}.");
            Problem::new("bad_request", message, "See /api/openapi.json.").into()
        })
    }
}

/// The time limits for a body to arrive.
#[derive(Clone, Copy, Debug)]
pub struct BodyReadTimeouts {
    pub whole: Duration,
    /// The limit until the next byte.
    pub stalled: Duration,
}

const BODY_READ_TIMEOUTS: BodyReadTimeouts =
    BodyReadTimeouts { whole: Duration::from_secs(60), stalled: Duration::from_secs(10) };

/// Returns the whole body of a request, if it is not larger than `limit` and arrives in time.
pub async fn read_body(request: Request, limit: usize, time: BodyReadTimeouts) -> Result<Vec<u8>, HttpError> {
    tokio::time::timeout(time.whole, read_body_chunks(request, limit, time.stalled))
        .await
        .unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> HttpError {
    let problem = Problem::new("too_slow", "The request took too long to arrive.", "Send it again.");
    HttpError::new(StatusCode::REQUEST_TIMEOUT, problem)
}

async fn read_body_chunks(request: Request, limit: usize, stalled: Duration) -> Result<Vec<u8>, HttpError> {
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    let mut stream = request.into_body().into_data_stream();
    let (mut bytes, mut seen) = (Vec::with_capacity(if announced > limit { 0 } else { announced }), 0);
    while let Some(piece) = tokio::time::timeout(stalled, stream.next()).await.map_err(|_| too_slow())? {
        let piece = piece.map_err(|error| {
            Problem::new("bad_request", format!("The request ended too early: {error}."), "Send it again.")
        })?;
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
        let message = format!("The request is larger than {limit} bytes.");
        return Err(HttpError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Problem::new("too_large", message, "Send less at once."),
        ));
    }
    Ok(bytes)
}
