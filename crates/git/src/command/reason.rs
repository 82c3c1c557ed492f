//! Finds the line of git's standard error that says why a call failed.

use std::process::ExitStatus;

/// The longest line that an error carries.
const MAX_LINE_CHARS: usize = 400;

/// What git says when the connection ended; the cause is in the lines before it, from ssh or the server.
const LOST_CONNECTION: [&str; 3] =
    ["Could not read from remote repository.", "the remote end hung up unexpectedly", "early EOF"];

/// Returns the line that says why: git's first `error:` or `fatal:`, since the lines after it are usually
/// consequences. Where that line only says that the connection ended, what ssh or the server said before it
/// is the cause; where a server explains its refusal, that is added.
pub(super) fn useful_line(stderr: &str, status: ExitStatus) -> String {
    // Progress output overwrites its own line.
    let lines: Vec<&str> = stderr.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines.iter().enumerate().find_map(|(at, line)| {
        let rest = line.strip_prefix("fatal:").or_else(|| line.strip_prefix("error:"))?;
        Some((at, rest.trim()))
    });
    let line = match told {
        Some((at, line)) if LOST_CONNECTION.contains(&line) => remote_cause(&lines[..at], false).unwrap_or(line.into()),
        Some((at, line)) => match remote_cause(&lines[..at], true) {
            Some(cause) => format!("{line} ({})", cause.trim_end_matches('.')),
            None => line.to_owned(),
        },
        None => match lines.iter().rfind(|line| !line.starts_with("hint:")) {
            Some(line) => (*line).to_owned(),
            None => format!("it ended with {status} and said nothing"),
        },
    };
    line.chars().take(MAX_LINE_CHARS).collect()
}

/// Returns what ssh or the server said: a line that calls itself an error, or else the last one. With
/// `server_only`, only lines of the server count, which git marks.
fn remote_cause(lines: &[&str], server_only: bool) -> Option<String> {
    let words = |line: &&str| {
        let of_server = line.strip_prefix("remote:");
        let text = match of_server {
            Some(text) => text.trim(),
            None if server_only => return None,
            None => line,
        };
        let noise = ["Warning:", "hint:", "debug", "Cloning into", "Receiving objects", "Resolving deltas", "@"];
        let says = text.contains(char::is_alphabetic) && !noise.iter().any(|start| text.starts_with(start));
        says.then(|| text.to_owned())
    };
    let said: Vec<String> = lines.iter().filter_map(words).collect();
    let error = said.iter().find_map(|line| line.strip_prefix("ERROR:").map(|rest| rest.trim().to_owned()));
    error.or_else(|| said.last().cloned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const RIGHTS: &str = "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.\n";

    #[test]
    fn the_useful_line_is_gits_reason() {
        let status = ExitStatus::from_raw(256);
        for (stderr, line) in [
            ("Preparing worktree\nfatal: 'x' is already checked out\nhint: y\n", "'x' is already checked out"),
            (
                "error: unable to create file a: No space left on device\nerror: b\n",
                "unable to create file a: No space left on device",
            ),
            ("ssh: connect to host h port 22: refused\n", "ssh: connect to host h port 22: refused"),
            ("Receiving objects:   1%\rReceiving objects:   2%\rfatal: early EOF\n", "early EOF"),
            ("", "it ended with exit status: 1 and said nothing"),
        ] {
            assert_eq!(useful_line(stderr, status), line);
        }
    }

    #[test]
    fn a_lost_connection_is_explained_by_what_came_before() {
        for (before, line) in [
            ("git@h: Permission denied (publickey).\r\n", "git@h: Permission denied (publickey)."),
            (
                "Warning: Permanently added 'h' (ED25519) to the list of known hosts.\r\ngit@h: Permission denied (publickey).\n",
                "git@h: Permission denied (publickey).",
            ),
            (
                "ssh: Could not resolve hostname h: Name or service not known\n",
                "ssh: Could not resolve hostname h: Name or service not known",
            ),
            (
                "@@@@@@@@\n@  WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\n@@@@@@@@\nSomeone could be eavesdropping on you right now!\nHost key verification failed.\n",
                "Host key verification failed.",
            ),
            ("ERROR: Repository not found.\n", "Repository not found."),
            (
                "remote: \nremote: =====\nremote: \nremote: ERROR: The project you were looking for could not be found.\nremote: \nremote: =====\nremote: \n",
                "The project you were looking for could not be found.",
            ),
            ("", "Could not read from remote repository."),
        ] {
            assert_eq!(useful_line(&format!("{before}{RIGHTS}"), ExitStatus::from_raw(256)), line);
        }
    }

    #[test]
    fn a_server_explains_its_refusal() {
        for (stderr, line) in [
            (
                "remote: Repository not found.\nfatal: repository 'https://h/x/y/' not found\n",
                "repository 'https://h/x/y/' not found (Repository not found)",
            ),
            (
                "remote: Invalid username or token.\nfatal: Authentication failed for 'https://h/x/y/'\n",
                "Authentication failed for 'https://h/x/y/' (Invalid username or token)",
            ),
            (
                "fatal: unable to access 'https://h/x/y/': Could not resolve host: h\n",
                "unable to access 'https://h/x/y/': Could not resolve host: h",
            ),
        ] {
            assert_eq!(useful_line(stderr, ExitStatus::from_raw(256)), line);
        }
    }
}
