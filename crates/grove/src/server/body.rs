//! Bodies of requests.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use futures_util::StreamExt;
use grove_environments::problem::Problem;
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
        let bytes = whole(request, LARGEST, READ_TIME).await?;
        serde_json::from_slice(&bytes).map(Body).map_err(|error| {
            let message = format!("The request is not the JSON that was expected: {error}.");
            Problem::new("bad_request", message, "See /api/openapi.json.").into()
        })
    }
}

/// How long a body may take to arrive.
#[derive(Clone, Copy, Debug)]
pub struct ReadTime {
    pub whole: Duration,
    /// Until the next byte.
    pub stalled: Duration,
}

const READ_TIME: ReadTime = ReadTime { whole: Duration::from_secs(60), stalled: Duration::from_secs(10) };

/// All of a request's body, if it is not larger than `limit` and arrives in time.
pub async fn whole(request: Request, limit: usize, time: ReadTime) -> Result<Vec<u8>, Fault> {
    tokio::time::timeout(time.whole, read(request, limit, time.stalled)).await.unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> Fault {
    let problem = Problem::new("too_slow", "The request took too long to arrive.", "Send it again.");
    Fault::new(StatusCode::REQUEST_TIMEOUT, problem)
}

async fn read(request: Request, limit: usize, stalled: Duration) -> Result<Vec<u8>, Fault> {
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
            // Not kept any more.
            bytes = Vec::new();
        }
        if seen > DRAINED {
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
