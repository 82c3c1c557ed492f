//! What tests stand on: real repositories, real stores, real processes, and nothing of the host.
//!
//! Every child process gets an environment built from nothing: its own HOME, its own git config,
//! PATH, and what the test says.

mod canonical;
mod dice;
mod engine;
pub mod github;
mod model;
mod picture;
mod postgres;
mod repo;
mod sandbox;
mod server;
mod silent;
mod terminal;

pub use canonical::Canonical;
pub use dice::Dice;
pub use engine::{Engine, TestStore};
pub use model::{Asked, Model};
pub use picture::Picture;
pub use postgres::Postgres;
pub use repo::{TestRepo, gits, hermetic_git};
pub use sandbox::{Ran, Sandbox, ran};
pub use server::{Answer, TestServer};
pub use silent::SilentServer;
pub use terminal::Terminal;

use std::path::Path;

/// The user that permission tests run as when the tests run as root: root is refused nothing.
pub const NOBODY: u32 = 65534;

/// The environment of every child: nothing of the host but PATH.
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

/// Waits for something that is about to be true.
#[track_caller]
pub fn wait_for(true_soon: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !true_soon() {
        assert!(began.elapsed() < std::time::Duration::from_secs(30), "it did not come true");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether nobody holds a lock on a file.
pub fn is_free(file: &Path) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let open = std::fs::OpenOptions::new().write(true).open(file);
    open.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Whether a process is there and has not ended; a zombie has, only its parent has not looked yet.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
