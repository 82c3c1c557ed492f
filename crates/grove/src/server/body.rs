//! Bodies of requests.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use futures_util::StreamExt;
use grove_engine::Problem;
use serde::de::DeserializeOwned;

use super::fault::Fault;

/// The largest request, but for webhooks.
const LARGEST: usize = 2 * 1024 * 1024;

/// What is read of a request that is too large, so that whoever sends it hears the answer.
const DRAINED: usize = 64 * 1024 * 1024;

/// A body in JSON, whatever its content type says.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, _: &S) -> Result<Self, Fault> {
        let bytes = whole(request, LARGEST).await?;
        serde_json::from_slice(&bytes).map(Body).map_err(|error| {
            let message = format!("The request is not the JSON that was expected: {error}.");
            Problem::new("bad_request", message, "See /api/openapi.json.").into()
        })
    }
}

/// How long a body may take to arrive.
const LONGEST: Duration = Duration::from_secs(60);

/// All of a request's body, if it is not larger than `limit` and arrives in time.
pub async fn whole(request: Request, limit: usize) -> Result<Vec<u8>, Fault> {
    tokio::time::timeout(LONGEST, read(request, limit)).await.unwrap_or_else(|_| {
        let problem = Problem::new("too_slow", "The request took too long to arrive.", "Send it again.");
        Err(Fault::new(StatusCode::REQUEST_TIMEOUT, problem))
    })
}

async fn read(request: Request, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut stream = request.into_body().into_data_stream();
    let (mut bytes, mut seen) = (Vec::new(), 0);
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| {
            Problem::new("bad_request", format!("The request ended too early: {error}."), "Send it again.")
        })?;
        seen += piece.len();
        if seen <= limit {
            bytes.extend_from_slice(&piece);
        } else if seen > DRAINED {
            break;
        }
    }
    if seen > limit {
        let message = format!("The request is larger than {limit} bytes.");
        return Err(Fault::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Problem::new("too_large", message, "Send less at once."),
        ));
    }
    Ok(bytes)
}
