//! Real PostgreSQL, on a private socket, as an unprivileged user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{NOBODY, is_root};

const PORT: u16 = 5432;

/// A throw-away cluster that ends with this value.
pub struct Postgres {
    dir: TempDir,
}

impl Postgres {
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("grove-pg-").tempdir().expect("a temporary directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        if is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("chown");
        }
        let cluster = Self { dir };
        let data = cluster.data();
        let data = data.to_str().expect("utf-8");
        cluster.run("initdb", &["-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]);
        cluster.launch();
        cluster
    }

    fn launch(&self) {
        let options = format!("-k {} -p {PORT} -c listen_addresses= -c fsync=off", self.dir.path().display());
        let (data, log) = (self.data(), self.dir.path().join("log"));
        self.run(
            "pg_ctl",
            &["-D", data.to_str().expect("utf-8"), "-l", log.to_str().expect("utf-8"), "-w", "-o", &options, "start"],
        );
    }

    /// Ends every connection and starts again.
    pub fn restart(&self) {
        self.stop();
        self.launch();
    }

    pub fn start_again(&self) {
        self.launch();
    }

    pub fn stop(&self) {
        self.run("pg_ctl", &["-D", self.data().to_str().expect("utf-8"), "-m", "fast", "-w", "stop"]);
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@localhost:{PORT}/{database}?host={}", self.dir.path().display())
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn run(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(bin_dir().join(program));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // A server that is started keeps its standard error: never a pipe that we would wait for.
        let status = command.stderr(Stdio::null()).status().expect("PostgreSQL's programs start");
        assert!(status.success(), "{program} {args:?}: {status}");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).ok();
        let pid = pid.and_then(|text| text.lines().next()?.parse().ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
    }
}

/// Debian keeps the server's programs out of PATH.
fn bin_dir() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max();
    newest.or_else(|| on_path("initdb")).expect("PostgreSQL's server; scripts/test installs it")
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|dir| Path::new(dir).join(program).exists())
}
