//! Accepts connections, and limits the time of each: to send a request, and to read the answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::connections::{ConnectionSlot, PeerConnections};
use super::peer_stream::{PeerStream, TurnBody};

/// The time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimeouts {
    /// The limit for the head of a request to arrive; on a kept-alive connection, that of the next request.
    pub header: Duration,
    /// The limit for the peer to read a byte of the data that it is sent.
    pub send: Duration,
}

/// Serves connections until it is dropped.
pub async fn serve_connections(listener: TcpListener, router: Router, timeouts: ConnectionTimeouts) {
    let connections = Arc::new(PeerConnections::default());
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // The process may be out of file descriptors; a moment later some may be free.
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(place) = connections.admit_peer(peer.ip()).await else {
            tracing::debug!(%peer, "connection refused: too many of this peer");
            continue;
        };
        let connection = place.connection.clone();
        let task = tokio::spawn(serve_connection(stream, peer, place, router.clone(), timeouts));
        connection.set_task(task.abort_handle());
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    place: ConnectionSlot,
    router: Router,
    timeouts: ConnectionTimeouts,
) {
    let connection = place.connection.clone();
    let service = tower::service_fn(move |request: Request<_>| {
        let (router, connection) = (router.clone(), connection.clone());
        async move {
            let mut request = request.map(|body| Body::new(TurnBody::of_request(body, connection.clone())));
            request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer));
            let response = router.oneshot(request).await?;
            Ok::<_, Infallible>(response.map(|body| Body::new(TurnBody::of_response(body, connection))))
        }
    });
    // Answers are small: collecting more data before sending is not worth the delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "TCP_NODELAY not set");
    }
    // HTTP/2 is off: the server would wait for its first bytes without a time limit.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(timeouts.header);
    let stream = TokioIo::new(PeerStream::new(stream, place.connection.clone(), timeouts.send));
    if let Err(error) = builder.serve_connection(stream, TowerToHyperService::new(service)).await {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
