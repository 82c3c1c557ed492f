//! What git shows to a remote.
//!
//! A secret is given to one call of git, for one repository of one host: through a credential helper
//! that exists for this call alone and reads a pipe that only this call inherits. It is in no address,
//! no argument, no file and no environment, and every other helper is switched off, so that none of
//! them keeps it. A server that sends git elsewhere gets nothing, and neither does a config that an
//! agent changed: the call runs from a git directory of ours (`network.rs`).

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};

use crate::{Git, GitError};

/// Knows what a remote wants to be shown.
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

/// How often git may ask for the secret in one call.
const SECRET_COPIES: usize = 8;

impl Shown {
    /// A pipe that holds the secret for one call.
    pub(crate) fn pipe(&self) -> io::Result<SecretPipe> {
        // A line break would begin another answer.
        let (name, secret) = (&self.credential.username, self.credential.secret.expose_secret());
        if [name.as_str(), secret].iter().any(|text| text.contains(['\n', '\0'])) {
            return Err(io::Error::other("the credential has a line break in it"));
        }
        let (reader, writer) = io::pipe()?;
        let text = format!("{name}\n{secret}\n").repeat(SECRET_COPIES);
        // More than a pipe holds would wait for a reader that is not there yet.
        if text.len() > 32 * 1024 {
            return Err(io::Error::other("the credential is too long"));
        }
        let mut writer = writer;
        writer.write_all(text.as_bytes())?;
        Ok(SecretPipe(reader.into()))
    }

    /// The settings of the one call: `get` is answered from the pipe, `store` and `erase` are not heard.
    pub(crate) fn settings(&self, pipe: &SecretPipe) -> [(String, String); 3] {
        let (url, fd) = (&self.url, pipe.reader());
        let helper = format!(
            r#"!f() {{ test "$1" = get && {{ IFS= read -r name; IFS= read -r secret; printf 'username=%s\npassword=%s\n' "$name" "$secret"; }} < /dev/fd/{fd}; }}; f"#
        );
        [
            // Whatever was configured so far is forgotten.
            ("credential.helper".to_owned(), String::new()),
            (format!("credential.{url}.helper"), helper),
            (format!("http.{url}.sslVerify"), "true".to_owned()),
        ]
    }

    /// The one protocol of the call: git goes no other way, where what it starts would see the secret.
    pub(crate) fn scheme(&self) -> &str {
        self.url.split_once("://").map_or("none", |(scheme, _)| scheme)
    }
}

/// The end of a pipe from which a credential helper reads the secret. Closed with this value.
#[derive(Debug)]
pub(crate) struct SecretPipe(OwnedFd);

impl SecretPipe {
    pub(crate) fn reader(&self) -> RawFd {
        self.0.as_raw_fd()
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
    fn the_secret_is_for_one_address_and_is_in_no_setting() {
        let credential = Credential { username: "x".to_owned(), secret: SecretString::from("s3cr3t".to_owned()) };
        let shown = Shown { url: without_user("https://me@host:8/a/b.git"), credential };
        let pipe = shown.pipe().unwrap();
        let settings = shown.settings(&pipe);
        assert_eq!(settings[0], ("credential.helper".to_owned(), String::new()));
        assert_eq!(settings[1].0, "credential.https://host:8/a/b.git.helper");
        assert!(!format!("{settings:?} {shown:?} {pipe:?}").contains("s3cr3t"));
        assert_eq!(shown.scheme(), "https");
        let mut text = String::new();
        io::Read::read_to_string(&mut std::fs::File::from(pipe.0), &mut text).unwrap();
        assert_eq!(text, "x\ns3cr3t\n".repeat(SECRET_COPIES));
    }

    #[test]
    fn a_secret_that_would_be_two_answers_is_not_shown() {
        for secret in ["a\nb", "a\0b", &"x".repeat(40_000)] {
            let credential = Credential { username: "x".to_owned(), secret: SecretString::from(secret.to_owned()) };
            assert!(Shown { url: "https://h/".to_owned(), credential }.pipe().is_err());
        }
    }
}
