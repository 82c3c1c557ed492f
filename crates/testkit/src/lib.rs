//! The base of all tests: real repositories, real stores, real processes, and nothing of the host.
//!
//! Every child process gets an environment built from nothing: its own HOME, its own git config,
//! PATH, and the variables that the test sets.

mod canonical;
mod dice;
pub mod discord;
mod engine;
pub mod github;
mod model;
mod picture;
mod postgres;
mod repo;
mod sandbox;
mod server;
mod silent;
pub mod slack;
pub mod telegram;
mod terminal;

pub use canonical::CheckoutSnapshot;
pub use dice::SeededRandom;
pub use engine::{TestEngine, TestStore};
pub use model::{FakeModel, ModelRequest};
pub use picture::DirectorySnapshot;
pub use postgres::TestPostgres;
pub use repo::{TestRepo, first_git, hermetic_git, installed_gits};
pub use sandbox::{ProgramOutput, Sandbox, run_command};
pub use server::{ServerResponse, TestServer};
pub use silent::SilentServer;
pub use terminal::TestTerminal;

use std::path::Path;
use std::time::{Duration, Instant};

/// The user that permission tests run as when the tests run as root: root is refused nothing.
pub const NOBODY_UID: u32 = 65534;

/// Returns the environment of every child: nothing of the host but PATH.
pub fn bare_env(home: &Path) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    [
        ("PATH", path),
        ("HOME", home.display().to_string()),
        ("LANG", "C.UTF-8".to_owned()),
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ("TZ", "UTC".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Tells whether the long property, crash and load runs are wanted (`scripts/test --long`). The quick run
/// checks the same on a smaller sample.
pub fn is_long_run() -> bool {
    std::env::var_os("GROVE_TEST_LONG").is_some()
}

/// Waits until a condition is true; panics after 30 seconds.
#[track_caller]
pub fn wait_for(true_soon: impl Fn() -> bool) {
    let began = Instant::now();
    while !true_soon() {
        assert!(began.elapsed() < Duration::from_secs(30), "it did not come true");
        std::thread::sleep(poll_interval(began));
    }
}

/// Returns the time until the next look at something that is waited for since `began`. It grows with the
/// wait: each look takes time from the processes that are waited for.
pub fn poll_interval(began: Instant) -> Duration {
    (began.elapsed() / 10).clamp(Duration::from_millis(5), Duration::from_millis(100))
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Tells whether no process holds a lock on a file.
pub fn is_free(file: &Path) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let open = std::fs::OpenOptions::new().write(true).open(file);
    open.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Tells whether a process exists and has not ended. A zombie has ended, but its parent has not waited
/// for it yet.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
