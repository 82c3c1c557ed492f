//! The log, without secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use grove_environments::redact::Redactor;
use grove_model::Moment;

/// The size at which the log file is renamed to `grove.log.1` and a new one begins.
const MAX_LOG_BYTES: u64 = 10 * 1024 * 1024;

/// The file that entries go to instead of the standard error.
static LOG_FILE: Mutex<Option<LogFile>> = Mutex::new(None);

struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size })
    }

    fn append_entry(&mut self, text: &str) -> io::Result<()> {
        if self.size >= MAX_LOG_BYTES {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *self = Self::open(&self.path)?;
        }
        let entry = format!("{} {text}", Moment::now());
        self.size += entry.len() as u64;
        self.file.write_all(entry.as_bytes())
    }
}

/// Sends log entries to a file from now on.
pub fn log_to_file(path: &Path) -> io::Result<()> {
    *LOG_FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(LogFile::open(path)?);
    Ok(())
}

fn write_entry(text: &str) {
    let mut file = LOG_FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let written = file.as_mut().is_some_and(|file| file.append_entry(text).is_ok());
    if !written {
        // An error cannot be reported: the standard error is the last resort.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Collects one log entry and writes it, redacted, when it is complete.
#[derive(Default)]
pub struct RedactingWriter {
    entry: Vec<u8>,
}

/// The redactor for the secrets that this process knows.
static LOG_REDACTOR: RwLock<Option<Redactor>> = RwLock::new(None);

/// Sets the redactor; from now on its secrets are removed from the log, too.
pub fn set_log_redactor(redactor: Redactor) {
    *LOG_REDACTOR.write().unwrap_or_else(PoisonError::into_inner) = Some(redactor);
}

/// Returns a text without the secrets that this process knows.
pub fn redact_secrets(text: &str) -> String {
    LOG_REDACTOR.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default().redact_text(text)
}

impl Write for RedactingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.entry.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for RedactingWriter {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.entry);
        write_entry(&redact_secrets(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_file_makes_way_for_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("grove.log");
        fs::write(&path, vec![b'x'; MAX_LOG_BYTES as usize]).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        log.append_entry("first\n").unwrap();
        log.append_entry("second\n").unwrap();
        let now = fs::read_to_string(&path).unwrap();
        assert!(now.lines().count() == 2 && now.ends_with(" second\n"), "{now}");
        assert_eq!(fs::metadata(dir.path().join("grove.log.1")).unwrap().len(), MAX_LOG_BYTES);
    }
}
