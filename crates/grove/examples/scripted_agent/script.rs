//! The directives of a prompt, each behind a `;` or in a line of its own.
//!
//! | directive | effect |
//! |---|---|
//! | `say TEXT` | sends a text |
//! | `tool NAME ABOUT` | uses a tool |
//! | `write PATH TEXT` | writes a file, with a tool |
//! | `plan` | sends a plan of two steps, of which one is done |
//! | `ask KIND ABOUT` | asks to `edit PATH`, `delete PATH` or `execute COMMAND`, sends the answer |
//! | `recall` | sends the earlier prompts of the session |
//! | `heard` | sends the whole prompt |
//! | `where` | sends its directory and its session |
//! | `cost DOLLARS` | adds so much to the cost of the session |
//! | `garbage` | writes lines that are not valid in the format |
//! | `line MEGABYTES` | writes a line of this length |
//! | `endless MEGABYTES` | sends so much text |
//! | `half` | ends in the middle of a line |
//! | `crash` | ends without a result |
//! | `vanish` | ends before its first line |
//! | `fail WORDS` | the model fails |
//! | `logout` | fails because no user is logged in |
//! | `stop REASON` | the turn ends for this reason (acp) |
//! | `forget` | deletes the session |
//! | `pid PATH` | writes its process id to a file |
//! | `sleep SECONDS` | does nothing |
//! | `deaf PATH` | like `pid` and `sleep`, but ignores all signals, and so does a child process |

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::session::ScriptedSession;

/// The output format of one kind of program.
pub trait ScriptOutput {
    /// Sends a whole text, with pieces of it first if the format has them.
    fn say_text(&mut self, text: &str);
    fn report_tool(&mut self, name: &str, about: &str, result: Result<&str, &str>);
    fn report_plan(&mut self);
    /// Asks for permission.
    fn ask_permission(&mut self, kind: &str, about: &str) -> PermissionAnswer;
    /// Reports the cost; tells whether it is over the budget.
    fn report_cost(&mut self, session: &ScriptedSession) -> bool;
    /// Sends an object of an unknown kind, as long as `filler`.
    fn send_unknown(&mut self, filler: &str);
    /// Tells whether the client has cancelled the turn.
    fn is_cancelled(&mut self) -> bool;
}

pub enum PermissionAnswer {
    Given,
    Refused,
    Cancelled,
}

/// The outcome of the script.
pub enum ScriptEnd {
    Well,
    Failed(String),
    LoggedOut,
    OverBudget,
    Cancelled,
    Reason(String),
}

const MEGABYTE: usize = 1024 * 1024;

/// Ends the process before the first line, if the prompt asks for that.
pub fn exit_if_vanishing(prompt: &str) {
    if prompt.ends_with("vanish") {
        std::process::exit(4);
    }
}

pub fn run_script(prompt: &str, session: &mut ScriptedSession, voice: &mut dyn ScriptOutput) -> ScriptEnd {
    let words = prompt.rsplit("\n\n").next().unwrap_or_default();
    session.requests += 1;
    let mut end = ScriptEnd::Well;
    for directive in words.split([';', '\n']).map(str::trim).filter(|directive| !directive.is_empty()) {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "say" => voice.say_text(rest),
            "tool" => voice.report_tool(first, more, Ok("done")),
            "write" => {
                let written = fs::write(first, more).map_err(|error| error.to_string());
                voice.report_tool("Write", first, written.as_ref().map(|()| "written").map_err(String::as_str));
            }
            "plan" => voice.report_plan(),
            "ask" => match voice.ask_permission(first, more) {
                PermissionAnswer::Given => voice.say_text("I may."),
                PermissionAnswer::Refused => voice.say_text("I may not."),
                PermissionAnswer::Cancelled => return ScriptEnd::Cancelled,
            },
            "recall" => voice.say_text(&format!("Earlier: {}", session.prompts.join(" | "))),
            "heard" => voice.say_text(prompt),
            "where" => voice.say_text(&format!("{} {}", std::env::current_dir().expect("a cwd").display(), session.id)),
            "cost" => {
                session.cost += rest.parse::<f64>().expect("dollars");
                if voice.report_cost(session) {
                    end = ScriptEnd::OverBudget;
                    break;
                }
            }
            "garbage" => {
                crate::write_raw(
                    "Loading…\n\n\u{1b}[31m{ not json }\n17\n[]\n{}\n\"text\"\n{\"type\":17}\n{\"id\":99,\"result\":{}}\n",
                );
                voice.send_unknown("x");
            }
            "line" => voice.send_unknown(&"x".repeat(rest.parse::<usize>().expect("megabytes") * MEGABYTE)),
            "endless" => {
                let text = format!("{}\n", "0123456789abcdef ".repeat(63)).repeat(MEGABYTE / 1072);
                let lines = crate::record_output(|| voice.say_text(&text));
                for _ in 0..rest.parse::<usize>().expect("megabytes") {
                    crate::write_raw(&lines);
                }
            }
            "half" => {
                crate::write_raw("{\"type\":\"assist");
                std::process::exit(0);
            }
            "crash" => {
                eprintln!("something broke");
                std::process::exit(3);
            }
            "fail" => end = ScriptEnd::Failed(rest.to_owned()),
            "logout" => end = ScriptEnd::LoggedOut,
            "stop" => end = ScriptEnd::Reason(rest.to_owned()),
            "forget" => {
                session.delete_session();
                return end;
            }
            "pid" => note_pid(rest, std::process::id()),
            "sleep" => {
                if !sleep_unless_cancelled(Duration::from_secs_f64(rest.parse().expect("seconds")), voice) {
                    end = ScriptEnd::Cancelled;
                    break;
                }
            }
            "deaf" => ignore_signals(rest),
            other => panic!("unknown directive `{other}`"),
        }
    }
    session.prompts.push(prompt.to_owned());
    session.save_session();
    end
}

/// Splits a text into pieces of a bounded size, at least two if that is possible.
pub fn split_into_pieces(text: &str) -> Vec<&str> {
    let size = (text.len() / 2).clamp(1, 16 * 1024);
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = (size.min(rest.len())..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

/// Sleeps for a while; returns false if the turn is cancelled meanwhile.
fn sleep_unless_cancelled(time: Duration, voice: &mut dyn ScriptOutput) -> bool {
    let began = Instant::now();
    while began.elapsed() < time {
        if voice.is_cancelled() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5).min(time));
    }
    true
}

fn note_pid(path: &str, pid: u32) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("a file for the pid");
    writeln!(file, "{pid}").expect("the pid is written");
}

fn ignore_signals(path: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let guard = runtime.enter();
    let heard = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal");
    note_pid(path, std::process::id());
    let child = format!("trap '' TERM; echo $$ >> {path}; sleep 300; sleep 300");
    let ended = Command::new("setsid").args(["sh", "-c", &child]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    drop((heard, guard, ended));
}
