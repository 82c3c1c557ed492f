//! Detects the kernel's features for sandboxing agents.

use std::io;
use std::process::Stdio;
use std::time::Duration;

/// The time that a program gets to try a user namespace.
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the version of Landlock's interface. It asks the kernel itself: the list in
/// `/sys/kernel/security/lsm` is often not mounted.
#[expect(unsafe_code, reason = "no safe crate asks for the version alone; this call reads no memory and opens nothing")]
pub fn landlock_version() -> io::Result<i64> {
    /// `LANDLOCK_CREATE_RULESET_VERSION` of `linux/landlock.h`.
    const LANDLOCK_VERSION_FLAG: libc::c_uint = 1;
    let no_ruleset = std::ptr::null::<libc::c_void>();
    let no_size: libc::size_t = 0;
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_ruleset, no_size, LANDLOCK_VERSION_FLAG) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// The result of an attempt to create a user namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceAttempt {
    Made,
    /// The kernel refused, with the reason.
    Refused(String),
    /// It could not be tried, with the reason.
    NotTried(String),
}

/// Creates a user namespace for a moment, as this user. No file tells whether this works: a limit, a
/// distribution's rule or a container's filter may forbid it.
pub async fn try_user_namespace() -> NamespaceAttempt {
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "true"]).stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(NAMESPACE_TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => NamespaceAttempt::Made,
        Ok(Ok(output)) => NamespaceAttempt::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Ok(Err(error)) => NamespaceAttempt::NotTried(format!("`unshare` cannot be started: {error}")),
        Err(_) => NamespaceAttempt::NotTried("`unshare` did not answer".to_owned()),
    }
}
