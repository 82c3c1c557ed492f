//! Values that are created once and kept in GROVE_HOME for this user only: the server's token, unless a
//! setting has one, and the host name of the page.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use grove_environments::problem::Problem;
use grove_environments::settings::Settings;
use grove_store::private;

use crate::words;

/// Returns the path of the token that the server created.
pub fn token_file(settings: &Settings) -> PathBuf {
    settings.home_path().join("token")
}

fn is_token(text: &str) -> bool {
    text.len() >= 16
}

/// Returns the token, if a person chose one or the server has already created one.
pub fn known_token(settings: &Settings) -> Option<String> {
    let chosen = settings.server_token().map(str::to_owned);
    chosen.or_else(|| load_value(&token_file(settings), is_token).ok().flatten())
}

/// Returns the token, created on first use.
pub fn token_of(settings: &Settings) -> Result<String, Problem> {
    if let Some(token) = settings.server_token() {
        return Ok(token.to_owned());
    }
    let path = token_file(settings);
    load_or_make(&path, is_token, || random_hex(32)).map_err(|error| words::bad_token_file(&path, &error))
}

/// Returns the host name that only the page has, created on first use.
///
/// A browser sends a cookie to every port of a host. Under a name that no other server of this machine
/// has, and that cannot be guessed, only this server gets it.
pub fn page_host_of(settings: &Settings) -> Result<String, Problem> {
    let path = settings.home_path().join("page-host");
    let make = || Ok(format!("grove-{}.localhost", random_hex(10)?));
    load_or_make(&path, is_page_host, make).map_err(|error| words::bad_page_host_file(&path, &error))
}

fn is_page_host(name: &str) -> bool {
    let random = name.strip_prefix("grove-").and_then(|rest| rest.strip_suffix(".localhost"));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    random.is_some_and(|random| (16..=57).contains(&random.len()) && random.bytes().all(plain))
}

/// Returns the content of a file; `None` if the file is missing or its content is unusable.
fn load_value(path: &Path, is_usable: impl Fn(&str) -> bool) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|value| is_usable(value))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the content of a file, which is created if it is missing.
fn load_or_make(
    path: &Path,
    is_usable: impl Fn(&str) -> bool,
    make: impl FnOnce() -> io::Result<String>,
) -> io::Result<String> {
    if let Some(value) = load_value(path, &is_usable)? {
        return Ok(value);
    }
    store_new_file(path, &make()?)?;
    // Of several processes that start at once, the value of the first one counts.
    load_value(path, &is_usable)?.ok_or_else(|| io::Error::other("it holds something else"))
}

/// Writes a new file; an existing one is kept.
fn store_new_file(path: &Path, value: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    private::create_folder(folder)?;
    // The file is complete before it gets its name, so that no process reads half of it.
    let aside = folder.join(format!(".new-{}", random_hex(8)?));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    file.write_all(format!("{value}\n").as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

pub fn random_hex(bytes: usize) -> io::Result<String> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).map_err(io::Error::other)?;
    Ok(to_hex(&buffer))
}

pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns `prefix` and 43 random characters of the URL-safe base64 alphabet, 258 bits.
pub fn random_secret(prefix: &str) -> io::Result<String> {
    const SECRET_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut buffer = [0; 43];
    getrandom::fill(&mut buffer).map_err(io::Error::other)?;
    Ok(prefix.chars().chain(buffer.iter().map(|byte| char::from(SECRET_ALPHABET[usize::from(byte & 63)]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_below_localhost_is_a_page_host() {
        assert!(is_page_host("grove-0123456789abcdef0123.localhost"));
        for name in
            ["", "grove-.localhost", "localhost", "grove-0123456789abcdef.example", "grove-0123456789abcde_.localhost"]
        {
            assert!(!is_page_host(name), "{name}");
        }
    }

    #[test]
    fn secrets_differ_and_have_their_shape() {
        let (one, other) = (random_secret("grove_link_").unwrap(), random_secret("grove_link_").unwrap());
        assert!(one != other && one.len() == "grove_link_".len() + 43 && one.starts_with("grove_link_"));
    }
}
