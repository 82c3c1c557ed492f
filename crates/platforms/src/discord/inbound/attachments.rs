//! Text files of a message.

use std::time::Duration;

use crate::discord::api::DiscordAttachment;

/// The maximum size of a file that the agent gets to read.
pub const MAX_FILE_BYTES: u64 = 100_000;
/// The number of files that are read.
const MAX_FILES: usize = 5;
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The hosts that Discord serves files from.
const CDN_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// The types of text that do not begin with `text/`.
const TEXT_TYPES: [&str; 7] = [
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/x-sh",
];

/// A file of a message, as the agent gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedFile {
    pub name: String,
    /// `None` if only the name is told.
    pub text: Option<String>,
}

/// Tells whether a file is text that may be fetched from its address.
pub fn may_fetch(file: &DiscordAttachment, api_url: &str) -> bool {
    let kind = file.content_type.as_deref().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/") || TEXT_TYPES.contains(&kind);
    is_text && file.size <= MAX_FILE_BYTES && is_from_discord(&file.url, api_url)
}

/// Tells whether an address is on one of Discord's hosts, or on the configured one.
fn is_from_discord(url: &str, api_url: &str) -> bool {
    let Ok(address) = url.parse::<http::Uri>() else { return false };
    let configured = api_url.parse::<http::Uri>().ok();
    let is_configured = configured.is_some_and(|configured| {
        configured.scheme() == address.scheme() && configured.authority() == address.authority()
    });
    let is_cdn = address.scheme_str() == Some("https")
        && address.port().is_none()
        && address.authority().is_some_and(|authority| CDN_HOSTS.contains(&authority.as_str()));
    is_configured || is_cdn
}

/// Reads the text files of a message; of others only the name is returned.
pub async fn read_attachments(files: &[DiscordAttachment], api_url: &str) -> Vec<AttachedFile> {
    let mut read = Vec::new();
    for file in files.iter().take(MAX_FILES) {
        let text = if may_fetch(file, api_url) { fetch_text(&file.url).await } else { None };
        read.push(AttachedFile { name: file.filename.clone(), text });
    }
    read.extend(files.iter().skip(MAX_FILES).map(|file| AttachedFile { name: file.filename.clone(), text: None }));
    read
}

/// Fetches a text; `None` if it is too large, not text, or not to be had.
async fn fetch_text(url: &str) -> Option<String> {
    let client = reqwest::Client::builder().timeout(FETCH_TIMEOUT).redirect(reqwest::redirect::Policy::none());
    let fetched = async {
        let mut response = client.build()?.get(url).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
                return Ok(None);
            }
        }
        Ok::<_, reqwest::Error>(String::from_utf8(bytes).ok())
    };
    fetched.await.unwrap_or_else(|error| {
        tracing::info!(error = %error.without_url(), "attachment not read");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(url: &str, kind: &str, size: u64) -> DiscordAttachment {
        DiscordAttachment {
            filename: "notes.txt".to_owned(),
            url: url.to_owned(),
            size,
            content_type: Some(kind.to_owned()),
        }
    }

    #[test]
    fn only_small_texts_of_discord_are_fetched() {
        let cdn = "https://cdn.discordapp.com/attachments/1/2/notes.txt?ex=1";
        let api = "http://127.0.0.1:5000";
        for (url, kind, size, fetched) in [
            (cdn, "text/plain; charset=utf-8", 100, true),
            (cdn, "application/json", 100_000, true),
            (cdn, "application/json", 100_001, false),
            (cdn, "image/png", 100, false),
            (cdn, "", 100, false),
            ("http://127.0.0.1:5000/file", "text/plain", 100, true),
            ("http://127.0.0.1:5001/file", "text/plain", 100, false),
            ("https://127.0.0.1:5000/file", "text/plain", 100, false),
            ("http://cdn.discordapp.com/file", "text/plain", 100, false),
            ("https://cdn.discordapp.com:8443/file", "text/plain", 100, false),
            ("https://cdn.discordapp.com@evil.example/file", "text/plain", 100, false),
            ("https://evil@cdn.discordapp.com/file", "text/plain", 100, false),
            ("https://cdn.discordapp.com.evil.example/file", "text/plain", 100, false),
            ("https://169.254.169.254/latest", "text/plain", 100, false),
            ("file:///etc/passwd", "text/plain", 100, false),
            ("not an address", "text/plain", 100, false),
        ] {
            assert_eq!(may_fetch(&file(url, kind, size), api), fetched, "{url} {kind} {size}");
        }
    }
}
