//! Finds the server to use: the running one, or one in this process.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use grove_environments::problem::Problem;
use grove_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::CliContext;
use super::client::build_http_client;
use crate::server::{GroveServer, ServerMode, token_of};
use crate::words;

/// The time that a running server may take to answer a probe.
const SERVER_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

pub struct ServerConnection {
    pub address: String,
    pub token: String,
    pub embedded: Option<EmbeddedServer>,
}

/// A server in this process.
pub struct EmbeddedServer {
    ending: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl EmbeddedServer {
    /// Ends the server and waits for running messages, as `grove serve` does.
    pub async fn shut_down(self) {
        self.ending.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "server task failed");
        }
    }
}

/// Returns the address of the server that runs where ours would listen, if it is one of ours.
pub async fn find_running_server(context: &CliContext, token: &str) -> Result<Option<String>, Problem> {
    match address_of(context.settings.listen_address()) {
        Some(address) if is_ours(&address, token).await? => Ok(Some(address)),
        _ => Ok(None),
    }
}

/// Asks a running server for a link that grants one browser access.
pub async fn new_link(address: &str, token: &str) -> Result<String, Problem> {
    let asked = build_http_client()?
        .post(format!("{address}/api/links"))
        .bearer_auth(token)
        .timeout(SERVER_PROBE_TIMEOUT)
        .send()
        .await;
    let answer = match asked {
        Ok(response) => response.json::<serde_json::Value>().await.unwrap_or_default(),
        Err(_) => serde_json::Value::Null,
    };
    answer["link"].as_str().map(str::to_owned).ok_or_else(|| words::no_link(address))
}

pub async fn connect_or_embed(context: &CliContext, store: &Store) -> Result<ServerConnection, Problem> {
    let token = token_of(&context.settings)?;
    if let Some(address) = find_running_server(context, &token).await? {
        return Ok(ServerConnection { address, token, embedded: None });
    }
    let mut settings = context.settings.clone();
    settings.with_flag("--listen", "server.listen", "127.0.0.1:0")?;
    settings.with_flag("--test-adapter", "adapters.test.enabled", "false")?;
    let server = GroveServer::start_server(context.git.clone(), store.clone(), &settings, ServerMode::Chat).await?;
    let address = format!("http://{}", server.listen_address());
    let ending = server.end_switch();
    let task = tokio::spawn(server.run_until_ended());
    Ok(ServerConnection { address, token, embedded: Some(EmbeddedServer { ending, task }) })
}

/// Returns the address at which this machine reaches a server with this `listen` setting. Returns `None` if
/// the port is chosen at its start.
fn address_of(listen: &str) -> Option<String> {
    let Ok(mut address) = listen.parse::<SocketAddr>() else { return Some(format!("http://{listen}")) };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    (address.port() != 0).then(|| format!("http://{address}"))
}

/// Tells whether a grove server answers at `address` and accepts our token: then it uses our store. Any other
/// program there is left alone.
async fn is_ours(address: &str, token: &str) -> Result<bool, Problem> {
    let http = build_http_client()?;
    let health = http.get(format!("{address}/health")).timeout(SERVER_PROBE_TIMEOUT).send().await;
    // The token is sent only to a server that answers like a grove server.
    let alive = match health {
        Ok(response) if response.status().is_success() => response.json::<serde_json::Value>().await,
        _ => return Ok(false),
    };
    if !alive.is_ok_and(|alive| alive["status"] == "ok") {
        return Ok(false);
    }
    let known =
        http.get(format!("{address}/api/codebases")).bearer_auth(token).timeout(SERVER_PROBE_TIMEOUT).send().await;
    Ok(known.is_ok_and(|response| response.status().is_success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_spoken_to_where_it_listens() {
        for (listen, address) in [
            ("127.0.0.1:3090", Some("http://127.0.0.1:3090")),
            ("0.0.0.0:80", Some("http://127.0.0.1:80")),
            ("[::]:80", Some("http://[::1]:80")),
            ("192.168.1.5:80", Some("http://192.168.1.5:80")),
            ("localhost:80", Some("http://localhost:80")),
            ("127.0.0.1:0", None),
        ] {
            assert_eq!(address_of(listen).as_deref(), address, "{listen}");
        }
    }
}
