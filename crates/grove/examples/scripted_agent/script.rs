//! What the agent is told to do: directives, each behind a `;` or in a line of its own.
//!
//! | directive | what it does |
//! |---|---|
//! | `say TEXT` | a text |
//! | `tool NAME ABOUT` | uses a tool |
//! | `write PATH TEXT` | writes a file, with a tool |
//! | `plan` | a plan of two steps, of which one is done |
//! | `ask KIND ABOUT` | asks for leave (`edit PATH`, `delete PATH`, `execute COMMAND`), says what came of it |
//! | `recall` | says what was said in the session before |
//! | `heard` | says the whole prompt |
//! | `where` | says its directory and its session |
//! | `cost DOLLARS` | a model that wants so much |
//! | `garbage` | lines that nobody understands |
//! | `line MEGABYTES` | a line that is as long |
//! | `endless MEGABYTES` | so much text |
//! | `half` | ends in the middle of a line |
//! | `crash` | ends without a word |
//! | `vanish` | the same, before its first word |
//! | `fail WORDS` | the model fails |
//! | `logout` | nobody is logged in |
//! | `stop REASON` | the turn ends for this reason (acp) |
//! | `forget` | the session is forgotten |
//! | `pid PATH` | writes its process id to a file |
//! | `sleep SECONDS` | does nothing |
//! | `deaf PATH` | like `pid` and `sleep`, deaf to everything, with a child that is, too |

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::session::Session;

/// How one kind of program says things.
pub trait Voice {
    /// A whole text, with pieces of it first where the format has them.
    fn text(&mut self, text: &str);
    fn tool(&mut self, name: &str, about: &str, result: Result<&str, &str>);
    fn plan(&mut self);
    /// Asks for leave.
    fn ask(&mut self, kind: &str, about: &str) -> Leave;
    /// Tells what it costs; whether that is too much.
    fn cost(&mut self, session: &Session) -> bool;
    /// An object of a kind that nobody knows, as long as `filler`.
    fn unknown(&mut self, filler: &str);
    /// Whether somebody wants the turn to end.
    fn cancelled(&mut self) -> bool;
}

pub enum Leave {
    Given,
    Refused,
    Cancelled,
}

/// How the script ended.
pub enum End {
    Well,
    Failed(String),
    LoggedOut,
    OverBudget,
    Cancelled,
    Reason(String),
}

const MEGABYTE: usize = 1024 * 1024;

/// Ends before the first line, if that is wanted.
pub fn vanish(prompt: &str) {
    if prompt.ends_with("vanish") {
        std::process::exit(4);
    }
}

pub fn perform(prompt: &str, session: &mut Session, voice: &mut dyn Voice) -> End {
    let words = prompt.rsplit("\n\n").next().unwrap_or_default();
    session.requests += 1;
    let mut end = End::Well;
    for directive in words.split([';', '\n']).map(str::trim).filter(|directive| !directive.is_empty()) {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "say" => voice.text(rest),
            "tool" => voice.tool(first, more, Ok("done")),
            "write" => {
                let written = fs::write(first, more).map_err(|error| error.to_string());
                voice.tool("Write", first, written.as_ref().map(|()| "written").map_err(String::as_str));
            }
            "plan" => voice.plan(),
            "ask" => match voice.ask(first, more) {
                Leave::Given => voice.text("I may."),
                Leave::Refused => voice.text("I may not."),
                Leave::Cancelled => return End::Cancelled,
            },
            "recall" => voice.text(&format!("Earlier: {}", session.prompts.join(" | "))),
            "heard" => voice.text(prompt),
            "where" => voice.text(&format!("{} {}", std::env::current_dir().expect("a cwd").display(), session.id)),
            "cost" => {
                session.cost += rest.parse::<f64>().expect("dollars");
                if voice.cost(session) {
                    end = End::OverBudget;
                    break;
                }
            }
            "garbage" => {
                crate::raw(
                    "Loading…\n\n\u{1b}[31m{ not json }\n17\n[]\n{}\n\"text\"\n{\"type\":17}\n{\"id\":99,\"result\":{}}\n",
                );
                voice.unknown("x");
            }
            "line" => voice.unknown(&"x".repeat(rest.parse::<usize>().expect("megabytes") * MEGABYTE)),
            "endless" => {
                let text = format!("{}\n", "0123456789abcdef ".repeat(63)).repeat(MEGABYTE / 1072);
                let lines = crate::recorded(|| voice.text(&text));
                for _ in 0..rest.parse::<usize>().expect("megabytes") {
                    crate::raw(&lines);
                }
            }
            "half" => {
                crate::raw("{\"type\":\"assist");
                std::process::exit(0);
            }
            "crash" => {
                eprintln!("something broke");
                std::process::exit(3);
            }
            "fail" => end = End::Failed(rest.to_owned()),
            "logout" => end = End::LoggedOut,
            "stop" => end = End::Reason(rest.to_owned()),
            "forget" => {
                session.forget();
                return end;
            }
            "pid" => note_pid(rest, std::process::id()),
            "sleep" => {
                if !pause(Duration::from_secs_f64(rest.parse().expect("seconds")), voice) {
                    end = End::Cancelled;
                    break;
                }
            }
            "deaf" => deaf(rest),
            other => panic!("nobody knows the directive `{other}`"),
        }
    }
    session.prompts.push(prompt.to_owned());
    session.keep();
    end
}

/// A text in pieces of a bounded size, at least two where that is possible.
pub fn pieces(text: &str) -> Vec<&str> {
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

/// Does nothing for a while; whether it was left alone.
fn pause(time: Duration, voice: &mut dyn Voice) -> bool {
    let began = Instant::now();
    while began.elapsed() < time {
        if voice.cancelled() {
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

fn deaf(path: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let guard = runtime.enter();
    let heard = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal");
    note_pid(path, std::process::id());
    let child = format!("trap '' TERM; echo $$ >> {path}; sleep 300; sleep 300");
    let ended = Command::new("setsid").args(["sh", "-c", &child]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    drop((heard, guard, ended));
}
