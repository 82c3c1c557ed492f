//! Connections: how many, and how long one may take to say what it wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// How many may be connected at once; the rest waits in the kernel's queue.
const CONNECTIONS: usize = 1024;

/// How long the head of a request may take to arrive.
const HEAD: Duration = Duration::from_secs(15);

/// Serves connections until it is dropped.
pub async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, perhaps: a moment later there may be some.
                tracing::warn!("a connection could not be taken: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let router = router.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = tower::service_fn(move |mut request: Request<_>| {
                request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer));
                router.clone().oneshot(request)
            });
            // Answers are small: not worth waiting for more.
            let _ = stream.set_nodelay(true);
            // Without HTTP/2, whose first bytes would be waited for without an end.
            let mut builder = Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
            let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            if let Err(error) = connection.await {
                tracing::debug!(%peer, "a connection ended: {error}");
            }
        });
    }
}
