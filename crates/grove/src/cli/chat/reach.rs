//! The server to talk to: the one that runs, or one of our own.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use grove_environments::problem::Problem;
use grove_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::Context;
use super::client::http;
use crate::server::{Duty, Server, token_of};

/// How long a server that runs may take to say so.
const SOON: Duration = Duration::from_secs(3);

pub struct Reached {
    pub address: String,
    pub token: String,
    pub embedded: Option<Embedded>,
}

/// A server in this process.
pub struct Embedded {
    ending: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Embedded {
    /// Waits for what runs, as a server does.
    pub async fn end(self) {
        self.ending.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!("the server ended badly: {error}");
        }
    }
}

/// The server that runs where ours would listen, if it is one of ours.
pub async fn running(context: &Context, token: &str) -> Result<Option<String>, Problem> {
    match address_of(context.settings.listen()) {
        Some(address) if is_ours(&address, token).await? => Ok(Some(address)),
        _ => Ok(None),
    }
}

/// A link of a server that runs, which lets one browser in.
pub async fn new_link(address: &str, token: &str) -> Result<String, Problem> {
    let asked = http()?.post(format!("{address}/api/links")).bearer_auth(token).timeout(SOON).send().await;
    let answer = match asked {
        Ok(response) => response.json::<serde_json::Value>().await.unwrap_or_default(),
        Err(_) => serde_json::Value::Null,
    };
    answer["link"].as_str().map(str::to_owned).ok_or_else(|| {
        let message = format!("The server at {address} gave no link.");
        Problem::new("unreachable", message, "End it and run `grove up` again.")
    })
}

pub async fn reach(context: &Context, store: &Store) -> Result<Reached, Problem> {
    let token = token_of(&context.settings)?;
    if let Some(address) = running(context, &token).await? {
        return Ok(Reached { address, token, embedded: None });
    }
    let mut settings = context.settings.clone();
    settings.with_flag("--listen", "server.listen", "127.0.0.1:0")?;
    settings.with_flag("--test-adapter", "adapters.test.enabled", "false")?;
    let server = Server::start(context.git.clone(), store.clone(), &settings, Duty::Chat).await?;
    let address = format!("http://{}", server.address());
    let ending = server.end_switch();
    let task = tokio::spawn(server.run());
    Ok(Reached { address, token, embedded: Some(Embedded { ending, task }) })
}

/// Where a server that listens there is spoken to from this machine; `None`: on a port of its own.
fn address_of(listen: &str) -> Option<String> {
    let Ok(mut address) = listen.parse::<SocketAddr>() else { return Some(format!("http://{listen}")) };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    (address.port() != 0).then(|| format!("http://{address}"))
}

/// Whether a grove answers there and takes our token: then it is on our store. Whatever else is
/// there is let be.
async fn is_ours(address: &str, token: &str) -> Result<bool, Problem> {
    let http = http()?;
    let health = http.get(format!("{address}/health")).timeout(SOON).send().await;
    // The token goes to nobody who does not speak like a grove.
    let alive = match health {
        Ok(response) if response.status().is_success() => response.json::<serde_json::Value>().await,
        _ => return Ok(false),
    };
    if !alive.is_ok_and(|alive| alive["status"] == "ok") {
        return Ok(false);
    }
    let known = http.get(format!("{address}/api/codebases")).bearer_auth(token).timeout(SOON).send().await;
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
