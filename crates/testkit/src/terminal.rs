//! A real terminal that a test uses as a person would.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long a test waits for anything before it fails.
const TERMINAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A program on a pseudo-terminal of its own.
pub struct TestTerminal {
    child: Child,
    keys: File,
    screen: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl TestTerminal {
    pub fn start(command: &Command) -> Self {
        Self::start_with_columns(command, 100)
    }

    /// Starts the program on a terminal that is so wide.
    pub fn start_with_columns(command: &Command, columns: u16) -> Self {
        let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&control).expect("grantpt");
        unlockpt(&control).expect("unlockpt");
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&control, size).expect("a size");
        let name = ptsname(&control, Vec::new()).expect("a name");
        let open = || {
            let path = OsStr::from_bytes(name.as_bytes());
            File::options().read(true).write(true).open(path).expect("the other side")
        };
        // `setsid` makes it the program's controlling terminal, so that Ctrl-C is a signal.
        let mut wrapped = Command::new("setsid");
        wrapped.arg("--ctty").arg(command.get_program()).args(command.get_args());
        wrapped.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        wrapped.env("TERM", "xterm");
        if let Some(dir) = command.get_current_dir() {
            wrapped.current_dir(dir);
        }
        let child = wrapped.stdin(open()).stdout(open()).stderr(Stdio::from(open())).spawn().expect("setsid starts");
        let keys = File::from(control);
        let mut reader = keys.try_clone().expect("a second handle");
        let (pieces, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the program is an error here.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if pieces.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, screen, seen: String::new() }
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("somebody reads");
    }

    /// Waits until this text is on the screen, and forgets everything up to it.
    #[track_caller]
    pub fn wait_for_text(&mut self, text: &str) {
        self.sees_after(text);
    }

    /// Waits until this text is on the screen, forgets everything up to it, and returns what was before it.
    #[track_caller]
    pub fn sees_after(&mut self, text: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            match self.screen.recv_timeout(TERMINAL_TIMEOUT.saturating_sub(began.elapsed())) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(_) => panic!("`{text}` does not appear: {:?}", self.seen),
            }
        }
    }

    /// Waits until the program has ended, and returns everything that it wrote, without colours.
    pub fn read_to_end(&mut self) -> String {
        self.wait_for_exit();
        // The other side of the terminal is closed now, so the reader ends.
        while let Ok(piece) = self.screen.recv_timeout(TERMINAL_TIMEOUT) {
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
        strip_escapes(&std::mem::take(&mut self.seen)).replace('\r', "")
    }

    /// Waits until the program has ended, and returns its exit code.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        self.child.wait().expect("wait").code()
    }
}

/// Takes the escape sequences for colours out of a text.
fn strip_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(|c| c.is_ascii_alphabetic());
        } else {
            plain.push(c);
        }
    }
    plain
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
