//! The log: no secret gets into it.

use std::io::{self, Write};
use std::sync::{PoisonError, RwLock};

use grove_environments::redact::Redactor;

/// Collects one entry and writes it, cleaned, when it is whole.
#[derive(Default)]
pub struct Clean {
    entry: Vec<u8>,
}

/// The secrets that are known to this process.
static SECRETS: RwLock<Option<Redactor>> = RwLock::new(None);

/// From now on these are taken out of the log, too.
pub fn hide(redactor: Redactor) {
    *SECRETS.write().unwrap_or_else(PoisonError::into_inner) = Some(redactor);
}

/// A text without the secrets that are known to this process.
pub fn clean(text: &str) -> String {
    SECRETS.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default().clean(text)
}

impl Write for Clean {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.entry.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Clean {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.entry);
        // There is nobody left to tell.
        let _ = io::stderr().write_all(clean(&text).as_bytes());
    }
}
