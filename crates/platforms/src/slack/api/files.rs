//! Files of messages: downloads and uploads, with the bot's token, from and to Slack's own hosts alone.

use std::time::Duration;

use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use secrecy::{ExposeSecret, SecretString};

use super::error::{limited, unavailable};
use super::is_safe_address;
use crate::retry::ChatApiError;

/// The time that the transfer of one file may take.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of the response to an upload.
const MAX_UPLOAD_RESPONSE_BYTES: usize = 16 * 1024;

type FileBody = Full<std::io::Cursor<Vec<u8>>>;

pub(super) struct FileTransfer {
    client: Client<HttpsConnector<HttpConnector>, FileBody>,
    /// The API's own host and port.
    api_authority: String,
    token: SecretString,
}

impl FileTransfer {
    pub fn new(connector: HttpsConnector<HttpConnector>, api: &Uri, token: &str) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            api_authority: authority_of(api),
            token: SecretString::from(token),
        }
    }

    pub async fn download(&self, url: &str, most: usize) -> Result<Option<String>, ChatApiError> {
        let Some(address) = self.own_address(url) else { return Ok(None) };
        let bytes = self.transfer(Method::GET, address, Vec::new(), most).await?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.contains('\0')))
    }

    pub async fn upload(&self, url: &str, text: &str) -> Result<(), ChatApiError> {
        let address = self.own_address(url).ok_or_else(|| unavailable("the address for the file is not Slack's"))?;
        self.transfer(Method::POST, address, text.as_bytes().to_vec(), MAX_UPLOAD_RESPONSE_BYTES).await.map(drop)
    }

    /// Returns an address to which the token may be sent.
    fn own_address(&self, url: &str) -> Option<Uri> {
        let address: Uri = url.parse().ok()?;
        let host = address.host()?.to_ascii_lowercase();
        let is_slack = host == "slack.com" || host.ends_with(".slack.com") || host.ends_with(".slack-files.com");
        let is_own = is_slack && address.scheme_str() == Some("https") || authority_of(&address) == self.api_authority;
        (is_own && is_safe_address(&address)).then_some(address)
    }

    /// Sends a request, and returns the body; `None` if it is larger than `most`.
    async fn transfer(
        &self,
        method: Method,
        address: Uri,
        body: Vec<u8>,
        most: usize,
    ) -> Result<Option<Vec<u8>>, ChatApiError> {
        let request = Request::builder()
            .method(method)
            .uri(address)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token.expose_secret()))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(Full::new(std::io::Cursor::new(body)))
            .map_err(|error| unavailable(&error.to_string()))?;
        let work = async {
            let response = self.client.request(request).await.map_err(|_| unavailable("the connection failed"))?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::TOO_MANY_REQUESTS => {
                    let after = response.headers().get(header::RETRY_AFTER).and_then(|after| after.to_str().ok());
                    return Err(limited(after.and_then(|after| after.parse().ok()).map(Duration::from_secs)));
                }
                status if status.is_server_error() => return Err(unavailable(&format!("status {}", status.as_u16()))),
                // A redirect leads to a page for people who are not signed in.
                _ => return Ok(None),
            }
            match Limited::new(response.into_body(), most).collect().await {
                Ok(body) => Ok(Some(body.to_bytes().to_vec())),
                Err(error) if error.is::<LengthLimitError>() => Ok(None),
                Err(_) => Err(unavailable("the connection failed")),
            }
        };
        tokio::time::timeout(TRANSFER_TIMEOUT, work).await.unwrap_or_else(|_| Err(unavailable("no response in time")))
    }
}

fn authority_of(address: &Uri) -> String {
    address.authority().map(|authority| authority.as_str().to_ascii_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack::api::build_connector;

    #[tokio::test]
    async fn the_token_goes_to_slack_alone() {
        let files = FileTransfer::new(build_connector().unwrap(), &Uri::from_static("http://127.0.0.1:99/api"), "x");
        for url in [
            "https://files.slack.com/files-pri/T1-F1/a.txt",
            "https://acme.slack.com/a.txt",
            "http://127.0.0.1:99/files/a.txt",
        ] {
            assert!(files.own_address(url).is_some(), "{url}");
        }
        for url in [
            "https://evil.example/a.txt",
            "https://slack.com.evil.example/a.txt",
            "https://evilslack.com/a.txt",
            "http://files.slack.com/a.txt",
            "http://127.0.0.1:98/a.txt",
            "https://files.slack.com@evil.example/a.txt",
            "file:///etc/passwd",
            "",
        ] {
            assert!(files.own_address(url).is_none(), "{url}");
        }
    }
}
