//! What git shows to a remote.
//!
//! A secret is given to one call of git, for one repository of one host: through a credential helper
//! that exists for this call alone and reads its environment. It is in no address, no argument and no
//! file, and every other helper is switched off, so that none of them keeps it. A server that sends
//! git elsewhere gets nothing, and neither does a config that somebody changed: the address that is
//! asked for is the one that git itself will go to.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};

use crate::command::Invocation;
use crate::{Git, GitError, Repository};

/// Whoever knows what a remote wants to be shown.
#[async_trait]
pub trait Keyring: fmt::Debug + Send + Sync {
    /// What is shown at this address; `None`: nothing of ours. An error says why it could not be had.
    async fn credential(&self, url: &str) -> Result<Option<Credential>, String>;
}

/// A name and a secret.
#[derive(Clone, Debug)]
pub struct Credential {
    pub username: String,
    pub secret: SecretString,
}

/// A credential, and the address that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    url: String,
    credential: Credential,
}

/// Which way commits go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Fetch,
    Push,
}

/// `get` is answered from the environment; `store` and `erase` are not heard.
const HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$GROVE_GIT_USERNAME" "$GROVE_GIT_PASSWORD"; }; f"#;

impl Shown {
    /// The settings and variables of the one call.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let url = &self.url;
        let settings = [
            // Whatever was configured so far is forgotten.
            ("credential.helper".to_owned(), String::new()),
            (format!("credential.{url}.helper"), HELPER.to_owned()),
            (format!("http.{url}.sslVerify"), "true".to_owned()),
        ];
        let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
        for (n, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{n}"), key));
            variables.push((format!("GIT_CONFIG_VALUE_{n}"), value));
        }
        // Git goes no other way in the same call: what it starts there would see the secret.
        let scheme = url.split_once("://").map_or("none", |(scheme, _)| scheme);
        variables.push(("GIT_ALLOW_PROTOCOL".to_owned(), scheme.to_owned()));
        variables.push(("GROVE_GIT_USERNAME".to_owned(), self.credential.username.clone()));
        variables.push(("GROVE_GIT_PASSWORD".to_owned(), self.credential.secret.expose_secret().to_owned()));
        variables
    }
}

impl Git {
    /// The same git, which shows remotes what this keyring has for them.
    pub fn with_keyring(mut self, keyring: Arc<dyn Keyring>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// What is shown at an address.
    pub(crate) async fn shown_at(&self, url: &str) -> Result<Option<Shown>, GitError> {
        let Some(keyring) = &self.keyring else { return Ok(None) };
        let found = keyring.credential(url).await.map_err(|why| GitError::NoCredential { why })?;
        Ok(found.map(|credential| Shown { url: without_user(url), credential }))
    }
}

impl Repository {
    /// A call that talks to a remote, with what that remote wants to be shown.
    pub(crate) async fn to_remote(
        &self,
        subcommand: &'static str,
        remote: &str,
        way: Way,
    ) -> Result<Invocation<'_>, GitError> {
        let call = self.command(subcommand).network();
        if self.git().keyring.is_none() {
            return Ok(call);
        }
        let asked = self.command("remote").args(["get-url", "--all"]).args((way == Way::Push).then_some("--push"));
        // What is no remote of ours says so itself.
        let asked = asked.args(["--", remote]).run_for(&[0, 2, 128]).await?;
        let urls = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        let (url, more) = urls.split_once('\n').unwrap_or((&urls, ""));
        let shown = self.git().shown_at(url).await?;
        if shown.is_some() {
            if !more.is_empty() {
                return Err(GitError::Astray { key: format!("remote.{remote}.url") });
            }
            self.goes_straight().await?;
        }
        Ok(call.showing(shown))
    }

    /// Whether nothing in the repository's own config, where an agent can write, sends what git shows
    /// through somebody else's hands. A person's own config may.
    async fn goes_straight(&self) -> Result<(), GitError> {
        let list = self.command("config").args(["--list", "--show-scope", "--name-only", "--includes", "-z"]);
        let listed = list.run().await?.stdout;
        let mut words = listed.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        while let (Some(scope), Some(key)) = (words.next(), words.next()) {
            if matches!(&*scope, "local" | "worktree") && leads_astray(&key) {
                return Err(GitError::Astray { key: key.into_owned() });
            }
        }
        Ok(())
    }
}

/// Keys come in lower case, but for what stands in their middle.
fn leads_astray(key: &str) -> bool {
    let (section, name) = (key.split('.').next().unwrap_or_default(), key.rsplit('.').next().unwrap_or_default());
    match section {
        "http" => {
            name.starts_with("proxy") || matches!(name, "sslcainfo" | "sslcapath" | "sslverify" | "curloptresolve")
        }
        "remote" => matches!(name, "proxy" | "proxyauthmethod" | "vcs"),
        "core" => matches!(name, "alternaterefscommand" | "gitproxy"),
        _ => false,
    }
}

/// An address without the name of an account in it, as git looks for its settings.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_settings_lead_astray() {
        for key in [
            "http.proxy",
            "http.https://h/.proxy",
            "http.https://h/a.b/.sslcainfo",
            "http.sslverify",
            "http.proxysslcainfo",
            "remote.origin.proxy",
            "remote.a.b.vcs",
            "core.alternaterefscommand",
        ] {
            assert!(leads_astray(key), "{key}");
        }
        for key in ["http.postbuffer", "http.https://h/.extraheader", "remote.origin.url", "core.bare", "alias.proxy"] {
            assert!(!leads_astray(key), "{key}");
        }
    }

    #[test]
    fn the_secret_is_for_one_address_and_shows_in_no_name() {
        let credential = Credential { username: "x".to_owned(), secret: SecretString::from("s3cr3t".to_owned()) };
        let shown = Shown { url: without_user("https://me@host:8/a/b.git"), credential };
        let variables = shown.variables();
        assert!(
            variables.contains(&("GIT_CONFIG_KEY_1".to_owned(), "credential.https://host:8/a/b.git.helper".to_owned()))
        );
        assert_eq!(
            variables[1..3].iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
            ["credential.helper", ""]
        );
        let holders: Vec<&str> =
            variables.iter().filter(|(_, v)| v.contains("s3cr3t")).map(|(k, _)| k.as_str()).collect();
        assert_eq!(holders, ["GROVE_GIT_PASSWORD"]);
        assert!(!format!("{shown:?}").contains("s3cr3t"));
    }
}
