//! The server: webhooks, test adapter, JSON API and pages on one address.

mod access;
mod api;
mod body;
mod connections;
mod events;
mod fault;
mod health;
mod host;
mod listen;
mod openapi;
mod page;
mod peer_stream;
mod query;
mod reload;
mod sessions;
mod test_adapter;
mod token;
mod trace;
mod webhooks;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router, middleware};
use grove_agents::supervisor::{end_unsupervised, is_supervisor};
use grove_conversations::conversations::{ConversationScope, Conversations};
use grove_environments::forge::Forge;
use grove_environments::maintenance::scheduler::RunProcesses;
use grove_environments::problem::Problem;
use grove_environments::redact::Redactor;
use grove_environments::settings::Settings;
use grove_git::Git;
use grove_platforms::adapters::Adapters;
use grove_platforms::github::connection::GithubConnection;
use grove_store::Store;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower_http::timeout::TimeoutLayer;
use utoipa_axum::router::OpenApiRouter;

pub use access::TokenDigest;
use host::RequestHost;
pub use page::codebase_query;
use token::page_host_of;
pub use token::{known_token, random_hex, token_file, token_of};

use crate::words;

/// The state that every request may need.
pub struct ServerState {
    pub conversations: Arc<Conversations>,
    pub keys: TokenDigest,
    pub listen: SocketAddr,
    /// The host name that only the page has.
    pub page_host: String,
    pub metrics: PrometheusHandle,
    pub ending: watch::Receiver<bool>,
    pub adapters: Adapters,
    pub write_probe: health::WriteProbe,
    /// Slots for webhooks whose signature is not checked yet.
    pub unsigned_bodies: Semaphore,
}

/// The time that a request may take, except for streams: a creation may fetch.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The time for delivering the last messages to platforms when the server ends.
const FINAL_DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The tasks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMode {
    /// Everything: all messages that wait in the store, and the scheduled maintenance. It prints its address.
    All,
    /// The conversation of one `grove chat`, and no task that would outlive it.
    Chat,
}

/// A server that listens and is ready to be run.
pub struct GroveServer {
    duty: ServerMode,
    listener: TcpListener,
    app: Arc<ServerState>,
    ending: watch::Sender<bool>,
}

impl GroveServer {
    /// Opens everything that can fail: address, store, token.
    pub async fn start_server(git: Git, store: Store, settings: &Settings, duty: ServerMode) -> Result<Self, Problem> {
        let token = token_of(settings)?;
        let mut secrets = settings.configured_secrets();
        secrets.push(token.clone());
        let redactor = Redactor::new(secrets).with_values(settings.agent_values());
        crate::log::set_log_redactor(redactor.clone());
        let listener = TcpListener::bind(settings.listen_address())
            .await
            .map_err(|error| words::address_taken(settings.listen_address(), &error))?;
        let listen = listener.local_addr().map_err(|error| words::address_unknown(&error))?;
        let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let handle = metrics.handle();
        // A second server in one process keeps the metrics recorder of the first one.
        let _ = metrics::set_global_recorder(metrics);
        let (ending, heard) = watch::channel(false);
        let scope = match duty {
            ServerMode::All => ConversationScope::Everything,
            ServerMode::Chat => ConversationScope::AcceptedHere,
        };
        let forge = GithubConnection::new(settings.github_settings()).map(|github| github as Arc<dyn Forge>);
        let conversations = Conversations::new(git, store, settings.into(), forge, redactor, scope);
        let adapters = match duty {
            ServerMode::All => {
                Adapters::new(&conversations, settings).map_err(|error| words::bad_github_settings(&error))?
            }
            ServerMode::Chat => Adapters::default(),
        };
        let app = Arc::new(ServerState {
            conversations,
            keys: TokenDigest::new(&token),
            listen,
            page_host: page_host_of(settings)?,
            metrics: handle,
            ending: heard,
            adapters,
            write_probe: health::WriteProbe::default(),
            unsigned_bodies: Semaphore::new(webhooks::MAX_UNSIGNED_BODIES),
        });
        Ok(Self { duty, listener, app, ending })
    }

    pub fn listen_address(&self) -> SocketAddr {
        self.app.listen
    }

    /// Creates a link that grants one browser access, once.
    pub async fn one_time_link(&self) -> Result<String, Problem> {
        sessions::new_link(&self.app, &RequestHost::from(self.app.listen)).await
    }

    /// Returns a sender that ends the server when it sends `true`.
    pub fn end_switch(&self) -> watch::Sender<bool> {
        self.ending.clone()
    }

    /// Serves until it is told to end; then waits for running messages.
    pub async fn run_until_ended(self) {
        let Self { duty, listener, app, ending } = self;
        let conversations = app.conversations.clone();
        let settings = app.conversations.settings.current();
        let timeouts = listen::ConnectionTimeouts { header: settings.header_timeout(), send: settings.send_timeout() };
        let web = tokio::spawn(listen::serve_connections(listener, build_router(app.clone()), timeouts));
        let keeping = (duty == ServerMode::All).then(|| {
            let (environments, heard) = (app.conversations.environments.clone(), ending.subscribe());
            let processes = RunProcesses { end_unsupervised, is_supervisor };
            tokio::spawn(async move { Box::pin(environments.run_scheduler(processes, heard)).await })
        });
        let reloading = (duty == ServerMode::All).then(|| {
            let (conversations, heard) = (app.conversations.clone(), ending.subscribe());
            tokio::spawn(async move { reload::watch_settings(&conversations, heard).await })
        });
        let adapters = app.adapters.start_all(&ending.subscribe());
        if duty == ServerMode::All {
            // Ready: from here on messages are accepted and handled.
            let _ = writeln!(std::io::stderr(), "listening on http://{}", app.listen);
        }
        conversations.run_queue(ending.subscribe()).await;
        if tokio::time::timeout(FINAL_DELIVERY_TIMEOUT, adapters.join_all()).await.is_err() {
            tracing::warn!("deliveries left for the next start");
        }
        for task in [keeping, reloading].into_iter().flatten() {
            task.abort();
        }
        web.abort();
    }
}

fn build_router(app: Arc<ServerState>) -> Router {
    let mut open =
        OpenApiRouter::with_openapi(openapi::new_document()).merge(health::routes()).merge(webhooks::routes());
    if app.conversations.settings.current().test_adapter() {
        open = open.merge(
            test_adapter::routes()
                .layer(middleware::from_fn_with_state(app.clone(), access::known_host))
                .layer(middleware::from_fn(access::from_this_machine)),
        );
    }
    let assets = page::open_routes().layer(middleware::from_fn_with_state(app.clone(), access::known_host));
    let login = sessions::open_routes().layer(middleware::from_fn_with_state(app.clone(), access::known_host));
    let closed = OpenApiRouter::default()
        .merge(health::closed_routes())
        .merge(api::routes())
        .merge(sessions::routes())
        .merge(page::routes().into())
        .layer(middleware::from_fn(access::to_the_end))
        .layer(TimeoutLayer::with_status_code(axum::http::StatusCode::GATEWAY_TIMEOUT, HANDLER_TIMEOUT))
        .merge(events::routes())
        .layer(middleware::from_fn_with_state(app.clone(), access::with_token))
        .layer(middleware::from_fn_with_state(app.clone(), access::known_host));
    let (router, document) = open.merge(login.into()).merge(assets.into()).merge(closed).split_for_parts();
    router
        .layer(Extension(openapi::finish_document(document)))
        .fallback(fault::nothing_there)
        .method_not_allowed_fallback(fault::wrong_method)
        .layer(middleware::from_fn(page::headers::add_security_headers))
        .layer(middleware::from_fn(trace::trace_request))
        .with_state(app)
}
