//! The server's token: chosen by somebody, or made once and kept for this user alone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use grove_engine::Problem;
use grove_engine::settings::Settings;

/// The token, made on first use.
pub fn token_of(settings: &Settings) -> Result<String, Problem> {
    if let Some(token) = settings.server_token() {
        return Ok(token.to_owned());
    }
    let path = settings.home().join("token");
    match kept(&path) {
        Ok(Some(token)) => return Ok(token),
        Ok(None) => {}
        Err(error) => return Err(unusable(&path, &error)),
    }
    make(&path).map_err(|error| unusable(&path, &error))?;
    // Whoever was first made it.
    match kept(&path) {
        Ok(Some(token)) => Ok(token),
        Ok(None) => Err(unusable(&path, &io::Error::other("it is empty"))),
        Err(error) => Err(unusable(&path, &error)),
    }
}

fn kept(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|token| token.len() >= 16)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn make(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Whole before it has its name, so that nobody reads half of it.
    let aside = folder.join(format!(".token-{}", random_hex(8)?));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    file.write_all(format!("{}\n", random_hex(32)?).as_bytes())?;
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
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn unusable(path: &Path, error: &io::Error) -> Problem {
    let message = format!("The token {} cannot be used: {error}.", path.display());
    Problem::new("no_token", message, "Make it readable for you, take it away, or set `server.token`.")
}
