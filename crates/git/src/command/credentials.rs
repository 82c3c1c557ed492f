//! The credentials that git sends to a remote.
//!
//! A secret is given to one call of git, for one repository of one host: through a credential helper that
//! exists for this call alone and reads a pipe that only this call inherits. The secret is in no address, no
//! argument, no file and no environment variable, and every other helper is switched off, so that none of
//! them keeps it. A server that redirects git elsewhere gets nothing, and neither does a config that an agent
//! changed: the call runs from a temporary git directory of ours (`network.rs`).

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};

use crate::{Git, GitError};

/// Provides the credential for a remote.
#[async_trait]
pub trait CredentialProvider: fmt::Debug + Send + Sync {
    /// Returns the credential for this address; `None` if we have none. An error says why it could not be
    /// obtained.
    async fn credential_for_url(&self, url: &str) -> Result<Option<Credential>, String>;
}

/// A name and a secret.
#[derive(Clone, Debug)]
pub struct Credential {
    pub username: String,
    pub secret: SecretString,
}

/// A credential, and the address that it is for.
#[derive(Clone, Debug)]
pub(crate) struct RemoteCredential {
    url: String,
    credential: Credential,
}

/// The number of times that git may ask for the secret in one call.
const SECRET_COPIES: usize = 8;

impl RemoteCredential {
    /// Opens a pipe that holds the secret for one call.
    pub(crate) fn open_secret_pipe(&self) -> io::Result<SecretPipe> {
        // A line break would start another field.
        let (name, secret) = (&self.credential.username, self.credential.secret.expose_secret());
        if [name.as_str(), secret].iter().any(|text| text.contains(['\n', '\0'])) {
            return Err(io::Error::other("the credential has a line break in it"));
        }
        let (reader, writer) = io::pipe()?;
        let text = format!("{name}\n{secret}\n").repeat(SECRET_COPIES);
        // A text longer than the pipe's buffer would block until a reader exists, and there is none
        // yet.
        if text.len() > 32 * 1024 {
            return Err(io::Error::other("the credential is too long"));
        }
        let mut writer = writer;
        writer.write_all(text.as_bytes())?;
        Ok(SecretPipe(reader.into()))
    }

    /// Returns the settings of this one call: the helper answers `get` from the pipe and ignores `store` and
    /// `erase`.
    pub(crate) fn helper_settings(&self, pipe: &SecretPipe) -> [(String, String); 3] {
        let (url, fd) = (&self.url, pipe.reader_fd());
        let helper = format!(
            r#"!f() {{ test "$1" = get && {{ IFS= read -r name; IFS= read -r secret; printf 'username=%s\npassword=%s\n' "$name" "$secret"; }} < /dev/fd/{fd}; }}; f"#
        );
        [
            // An empty value resets the helpers that are configured so far.
            ("credential.helper".to_owned(), String::new()),
            (format!("credential.{url}.helper"), helper),
            (format!("http.{url}.sslVerify"), "true".to_owned()),
        ]
    }

    /// Returns the only protocol that the call may use: with another one, programs that git starts would see
    /// the secret.
    pub(crate) fn allowed_protocol(&self) -> &str {
        self.url.split_once("://").map_or("none", |(scheme, _)| scheme)
    }
}

/// The end of a pipe from which a credential helper reads the secret. Dropping the value closes it.
#[derive(Debug)]
pub(crate) struct SecretPipe(OwnedFd);

impl SecretPipe {
    pub(crate) fn reader_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Git {
    /// Returns this git with a provider of credentials for remotes.
    pub fn with_keyring(mut self, keyring: Arc<dyn CredentialProvider>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// Returns the credential for an address.
    pub(crate) async fn shown_at(&self, url: &str) -> Result<Option<RemoteCredential>, GitError> {
        let Some(keyring) = &self.keyring else { return Ok(None) };
        let found = keyring.credential_for_url(url).await.map_err(|why| GitError::NoCredential { why })?;
        Ok(found.map(|credential| RemoteCredential { url: without_user(url), credential }))
    }
}

/// Returns an address without the account name in it, as git looks up its settings.
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
    fn the_secret_is_for_one_address_and_is_in_no_setting() {
        let credential = Credential { username: "x".to_owned(), secret: SecretString::from("s3cr3t".to_owned()) };
        let shown = RemoteCredential { url: without_user("https://me@host:8/a/b.git"), credential };
        let pipe = shown.open_secret_pipe().unwrap();
        let settings = shown.helper_settings(&pipe);
        assert_eq!(settings[0], ("credential.helper".to_owned(), String::new()));
        assert_eq!(settings[1].0, "credential.https://host:8/a/b.git.helper");
        assert!(!format!("{settings:?} {shown:?} {pipe:?}").contains("s3cr3t"));
        assert_eq!(shown.allowed_protocol(), "https");
        let mut text = String::new();
        io::Read::read_to_string(&mut std::fs::File::from(pipe.0), &mut text).unwrap();
        assert_eq!(text, "x\ns3cr3t\n".repeat(SECRET_COPIES));
    }

    #[test]
    fn a_secret_that_would_be_two_answers_is_not_shown() {
        for secret in ["a\nb", "a\0b", &"x".repeat(40_000)] {
            let credential = Credential { username: "x".to_owned(), secret: SecretString::from(secret.to_owned()) };
            assert!(RemoteCredential { url: "https://h/".to_owned(), credential }.open_secret_pipe().is_err());
        }
    }
}
