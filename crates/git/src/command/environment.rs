//! The environment variables of every git process, built from an empty environment.
//!
//! The server's own environment holds secrets (`GITHUB_TOKEN`, `DATABASE_URL`), and git runs programs that a
//! repository's config names. So git gets the variables that are listed here and nothing else.

use std::ffi::{OsStr, OsString};

/// Variables of the caller that every call gets: the locations of programs, of the person's git config and of
/// temporary files, and the time zone.
const KEPT_VARIABLES: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "TZ"];

/// Variables of the caller that only a call to a remote gets: how to reach it, how to trust it, and the
/// locations of the person's own ssh agent and credential helpers.
const REMOTE_CALL_VARIABLES: [&str; 18] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "KRB5CCNAME",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

const PINNED_VARIABLES: [(&str, &str); 12] = [
    ("LC_ALL", "C"),
    ("LANGUAGE", ""),
    ("TERM", "dumb"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_COMMITTER_NAME", "Grovekeeper"),
    ("GIT_COMMITTER_EMAIL", "grove@localhost"),
    ("GIT_AUTHOR_NAME", "Grovekeeper"),
    ("GIT_AUTHOR_EMAIL", "grove@localhost"),
    ("SSH_ASKPASS_REQUIRE", "never"),
];

/// Returns the variables of a call; `to_remote` is set if it connects to a remote.
pub(crate) fn of_call(to_remote: bool) -> impl Iterator<Item = (&'static OsStr, OsString)> {
    let remote = REMOTE_CALL_VARIABLES.iter().filter(move |_| to_remote);
    let kept =
        KEPT_VARIABLES.iter().chain(remote).filter_map(|name| Some((OsStr::new(*name), std::env::var_os(name)?)));
    kept.chain(PINNED_VARIABLES.iter().map(|(name, value)| (OsStr::new(*name), OsString::from(value))))
}

/// Returns the variables that give git settings for one call. Unlike `-c`, they allow any character
/// in a name.
pub(crate) fn of_settings(settings: &[(String, String)]) -> Vec<(String, String)> {
    if settings.is_empty() {
        return Vec::new();
    }
    let count = ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
    let each = settings.iter().enumerate().flat_map(|(n, (key, value))| {
        [(format!("GIT_CONFIG_KEY_{n}"), key.clone()), (format!("GIT_CONFIG_VALUE_{n}"), value.clone())]
    });
    std::iter::once(count).chain(each).collect()
}
