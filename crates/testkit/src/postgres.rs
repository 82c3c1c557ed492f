//! Real PostgreSQL, on a private socket, as an unprivileged user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{NOBODY_UID, is_root};

const POSTGRES_PORT: u16 = 5432;

/// A temporary cluster that is stopped when this value is dropped.
pub struct TestPostgres {
    dir: TempDir,
}

impl TestPostgres {
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("grove-pg-").tempdir().expect("a temporary directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        if is_root() {
            chown(dir.path(), Some(NOBODY_UID), Some(NOBODY_UID)).expect("chown");
        }
        let cluster = Self { dir };
        let data = cluster.data_dir();
        let data = data.to_str().expect("utf-8");
        cluster.run_program(
            "initdb",
            &["-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"],
        );
        cluster.launch_server();
        cluster
    }

    fn launch_server(&self) {
        let options = format!("-k {} -p {POSTGRES_PORT} -c listen_addresses= -c fsync=off", self.dir.path().display());
        let (data, log) = (self.data_dir(), self.dir.path().join("log"));
        self.run_program(
            "pg_ctl",
            &["-D", data.to_str().expect("utf-8"), "-l", log.to_str().expect("utf-8"), "-w", "-o", &options, "start"],
        );
    }

    /// Ends every connection and starts again.
    pub fn restart(&self) {
        self.stop();
        self.launch_server();
    }

    pub fn start_again(&self) {
        self.launch_server();
    }

    pub fn stop(&self) {
        self.run_program("pg_ctl", &["-D", self.data_dir().to_str().expect("utf-8"), "-m", "fast", "-w", "stop"]);
    }

    pub fn database_url(&self, database: &str) -> String {
        format!("postgres://postgres@localhost:{POSTGRES_PORT}/{database}?host={}", self.dir.path().display())
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn run_program(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(bin_dir().join(program));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        if is_root() {
            command.uid(NOBODY_UID).gid(NOBODY_UID);
        }
        // A started server keeps its standard error open, so it is never a pipe that we would wait for.
        let status = command.stderr(Stdio::null()).status().expect("PostgreSQL's programs start");
        assert!(status.success(), "{program} {args:?}: {status}");
    }
}

impl Drop for TestPostgres {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.data_dir().join("postmaster.pid")).ok();
        let pid = pid.and_then(|text| text.lines().next()?.parse().ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
    }
}

/// Returns the folder of the server's programs, which Debian keeps out of PATH.
fn bin_dir() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max();
    newest.or_else(|| on_path("initdb")).expect("PostgreSQL's server; scripts/test installs it")
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|dir| Path::new(dir).join(program).exists())
}
