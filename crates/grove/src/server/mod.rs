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
mod page;
mod peer_stream;
mod sessions;
mod test_adapter;
mod token;
mod webhooks;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use grove_agents::supervisor::{end_unsupervised, is_supervisor};
use grove_conversations::conversations::{Scope, Talks};
use grove_environments::forge::Forge;
use grove_environments::maintenance::scheduler::RunProcesses;
use grove_environments::problem::Problem;
use grove_environments::redact::Redactor;
use grove_environments::settings::Settings;
use grove_git::Git;
use grove_platforms::github::adapter::Adapter;
use grove_platforms::github::connection::Connection;
use grove_store::Store;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower_http::timeout::TimeoutLayer;

pub use access::Keys;
use host::RequestHost;
use token::page_host_of;
pub use token::{known_token, random_hex, token_file, token_of};

/// What every request may need.
pub struct App {
    pub talks: Arc<Talks>,
    pub keys: Keys,
    pub listen: SocketAddr,
    /// The host name that only the page has.
    pub page_host: String,
    pub metrics: PrometheusHandle,
    pub ending: watch::Receiver<bool>,
    pub github: Option<Arc<grove_platforms::github::adapter::Adapter>>,
    pub write_probe: health::WriteProbe,
    /// Places for webhooks whose signature is not checked yet.
    pub unsigned_bodies: Semaphore,
}

/// How long a request may take, but for streams: a creation may fetch.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// How long platforms are told what was said last, when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What a server is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Everything: all that waits in the store, and keeping house. It says where it listens.
    All,
    /// The conversation of one `grove chat`, and nothing that would outlive it.
    Chat,
}

/// A server that listens and is ready to be run.
pub struct Server {
    duty: Duty,
    listener: TcpListener,
    app: Arc<App>,
    ending: watch::Sender<bool>,
}

impl Server {
    /// Opens everything that can fail: address, store, token.
    pub async fn start(git: Git, store: Store, settings: &Settings, duty: Duty) -> Result<Self, Problem> {
        let token = token_of(settings)?;
        let mut secrets = settings.secrets();
        secrets.push(token.clone());
        let redactor = Redactor::new(secrets).with_values(settings.agent_values());
        crate::log::hide(redactor.clone());
        let listener = TcpListener::bind(settings.listen()).await.map_err(|error| {
            let message = format!("{} cannot be listened on: {error}.", settings.listen());
            Problem::new("address_taken", message, "Is a grove running there already? Choose another with `--listen`.")
        })?;
        let listen = listener.local_addr().map_err(|error| {
            Problem::new("address_taken", format!("The address is not known: {error}."), "Try another `--listen`.")
        })?;
        let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let handle = metrics.handle();
        // A second server in one process would keep the first one's figures.
        let _ = metrics::set_global_recorder(metrics);
        let (ending, heard) = watch::channel(false);
        let scope = match duty {
            Duty::All => Scope::Everything,
            Duty::Chat => Scope::AcceptedHere,
        };
        let forge = Connection::new(settings.github()).map(|github| github as Arc<dyn Forge>);
        let talks = Talks::new(git, store, settings.clone(), forge, redactor, scope);
        let github = match duty {
            Duty::All => Adapter::new(&talks, settings).map_err(|error| {
                let message = grove_environments::problem::sentence(&error.to_string());
                Problem::new("bad_settings", message, "Correct `adapters.github` in GROVE_HOME/config.toml.")
            })?,
            Duty::Chat => None,
        };
        let app = Arc::new(App {
            talks,
            keys: Keys::new(&token),
            listen,
            page_host: page_host_of(settings)?,
            metrics: handle,
            ending: heard,
            github,
            write_probe: health::WriteProbe::default(),
            unsigned_bodies: Semaphore::new(webhooks::MAX_UNSIGNED_BODIES),
        });
        Ok(Self { duty, listener, app, ending })
    }

    pub fn address(&self) -> SocketAddr {
        self.app.listen
    }

    /// Makes a link that lets one browser in, once.
    pub async fn one_time_link(&self) -> Result<String, Problem> {
        sessions::new_link(&self.app, &RequestHost::from(self.app.listen)).await
    }

    /// Ends the server when sent `true`.
    pub fn end_switch(&self) -> watch::Sender<bool> {
        self.ending.clone()
    }

    /// Serves until it is told to end; then what runs is waited for.
    pub async fn run(self) {
        let Self { duty, listener, app, ending } = self;
        let talks = app.talks.clone();
        let web = tokio::spawn(listen::serve(listener, router(app.clone())));
        let keeping = (duty == Duty::All).then(|| {
            let (environments, heard) = (app.talks.isolation.clone(), ending.subscribe());
            let processes = RunProcesses { end_unsupervised, is_supervisor };
            tokio::spawn(async move { Box::pin(environments.run_scheduler(processes, heard)).await })
        });
        let github = app.github.clone().map(|github| tokio::spawn(github.serve(ending.subscribe())));
        if duty == Duty::All {
            // Ready: from here on messages are taken, and worked on.
            let _ = writeln!(std::io::stderr(), "listening on http://{}", app.listen);
        }
        talks.serve(ending.subscribe()).await;
        if let Some(github) = github
            && tokio::time::timeout(LAST_WORDS, github).await.is_err()
        {
            tracing::warn!("GitHub was not told everything yet; the next start does");
        }
        if let Some(keeping) = keeping {
            keeping.abort();
        }
        web.abort();
    }
}

fn router(app: Arc<App>) -> Router {
    let mut open = Router::new().merge(health::routes()).merge(webhooks::routes());
    if app.talks.settings.test_adapter() {
        open = open.merge(
            test_adapter::routes()
                .layer(middleware::from_fn_with_state(app.clone(), access::known_host))
                .layer(middleware::from_fn(access::from_this_machine)),
        );
    }
    let assets = page::open_routes().layer(middleware::from_fn_with_state(app.clone(), access::known_host));
    let login = sessions::open_routes().layer(middleware::from_fn_with_state(app.clone(), access::known_host));
    let closed = Router::new()
        .merge(health::closed_routes())
        .merge(api::routes())
        .merge(sessions::routes())
        .merge(page::routes())
        .layer(middleware::from_fn(access::to_the_end))
        .layer(TimeoutLayer::with_status_code(axum::http::StatusCode::GATEWAY_TIMEOUT, LONGEST))
        .merge(events::routes())
        .layer(middleware::from_fn_with_state(app.clone(), access::with_token))
        .layer(middleware::from_fn_with_state(app.clone(), access::known_host));
    open.merge(login)
        .merge(assets)
        .merge(closed)
        .fallback(fault::nothing_there)
        .method_not_allowed_fallback(fault::wrong_method)
        .layer(middleware::from_fn(page::headers::strict))
        .with_state(app)
}
