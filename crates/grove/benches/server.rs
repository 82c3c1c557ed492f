//! The server on its own: its start time, its memory, its throughput, and the latency of its
//! acknowledgements. There is nothing to compare it to, so each figure is printed beside its aim;
//! machines are noisy, and none is asserted. Run it with `scripts/bench server`.

#[path = "shared/mod.rs"]
#[expect(dead_code, reason = "nothing is compared to git here")]
mod shared;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::{Sandbox, TestServer, is_alive};
use serde_json::{Value, json};
use shared::{asked_for, make_repository, median};

fn main() {
    if !asked_for() {
        return;
    }
    // `scripts/bench server PART` runs one part.
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let parts: [(&str, fn()); 7] = [
        ("start", bench_start),
        ("idle", bench_idle),
        ("load", bench_load),
        ("latency", bench_latency),
        ("turn", bench_turn),
        ("stream", bench_stream),
        ("webhooks", bench_webhooks),
    ];
    for (name, measure) in parts {
        if only.as_deref().is_none_or(|only| only == name) {
            measure();
        }
    }
}

/// A program that prints the time of its run, as an agent of the kind that speaks JSON.
const CLOCK_AGENT_SCRIPT: &str = r#"echo '{"type":"system","subtype":"init","session_id":"s"}'
printf '{"type":"result","is_error":false,"result":"%s"}\n' "$(date +%s%N)"
"#;

/// A program that prints a lot of text.
const TALKATIVE_AGENT_SCRIPT: &str = r#"text=$(head -c 8000 /dev/zero | tr '\0' x)
yes "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}}" | head -n "$1"
echo '{"type":"result","is_error":false,"result":"done"}'
"#;

/// Starts a server whose agent `lines` is a script that speaks JSON.
fn with_script(grove: &Sandbox, script: &str, argument: &str) -> TestServer {
    let path = grove.repo.temp_dir().join("agent.sh");
    fs::write(&path, script).expect("a script");
    let path = path.display();
    let config = format!(
        "[agents.clock]\ncommand = [\"date\", \"+%s%N\"]\n\
         [agents.lines]\nkind = \"claude\"\ncommand = [\"sh\", \"{path}\", \"{argument}\"]\n"
    );
    fs::write(grove.grove_home().join("config.toml"), config).expect("config.toml");
    TestServer::start(grove)
}

/// Measures the time of a turn without the agent: from the message to the agent's start, and from its
/// last output to the stored reply, in an existing environment.
fn bench_turn() {
    for (agent, what) in [("clock", "any program"), ("lines", "one that speaks JSON")] {
        let grove = registered_sandbox();
        let server = with_script(&grove, CLOCK_AGENT_SCRIPT, "");
        server.ask("c", &format!("/agent {agent}"));
        let clock = |text: &str| text.trim().parse::<f64>().unwrap_or_else(|_| panic!("{agent} said {text:?}")) / 1e6;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for n in 0..220 {
            let sent = unix_seconds();
            let said = server.ask("c", "x");
            let ran = clock(said.last().expect("an answer"));
            let told = server.send_request("GET", "/test/messages/c", &[], None).json();
            let stored = told["messages"].as_array().and_then(|all| all.last()).expect("an answer");
            let stored: jiff::Timestamp = stored["timestamp"].as_str().expect("a time").parse().expect("a time");
            // The first turns make the environment and warm everything up.
            if n >= 20 {
                before.push(ran - sent);
                after.push(stored.as_nanosecond() as f64 / 1e6 - ran);
            }
        }
        for (times, part) in [(&mut before, "message → start"), (&mut after, "last word → reply stored")] {
            times.sort_by(f64::total_cmp);
            let (half, most) = (times[times.len() / 2], times[times.len() * 95 / 100]);
            let figure = format!("{half:.1} ms, p95 {most:.1} ms");
            print_figure(&format!("{part}, {what}"), &figure, "≤20 ms p95", most <= 20.0);
        }
    }
}

/// Measures a gigabyte of an agent's output.
fn bench_stream() {
    for megabytes in [10, 100, 1000] {
        let grove = registered_sandbox();
        let server = with_script(&grove, TALKATIVE_AGENT_SCRIPT, &(megabytes * 1_000_000 / 8_000).to_string());
        server.ask("c", "/agent lines");
        let began = Instant::now();
        server.say("c", "x");
        wait_until_settled(&server, "c");
        let took = began.elapsed().as_secs_f64();
        let figure = format!("{:.0} MB, {took:.1} s", of_status(&server, "VmHWM:"));
        println!("{:<60} {figure:>22}", format!("resident at most while an agent says {megabytes} MB"));
    }
}

/// Makes every sync of a file 5 ms slower, as a slow disk would.
const SLOW_DISK_SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static int slowly(const char *name, int fd) {
    struct timespec pause = { 0, 5000000 };
    nanosleep(&pause, 0);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}
int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
"#;

/// Sends signed webhooks of 10 KB from eight connections, for ten seconds; each is in the store before
/// it is acknowledged.
fn bench_webhooks() {
    const WEBHOOK_SECRET: &str = "a secret of the webhook";
    for (what, slow) in [("webhooks", false), ("webhooks, every sync 5 ms slower", true)] {
        let grove = registered_sandbox();
        let mut command = grove.grove_command(["serve", "--listen", "127.0.0.1:0"]);
        command.env("WEBHOOK_SECRET", WEBHOOK_SECRET);
        if slow {
            let (source, library) = (grove.repo.temp_dir().join("slow.c"), grove.repo.temp_dir().join("slow.so"));
            fs::write(&source, SLOW_DISK_SOURCE).expect("a file");
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
            assert!(compiler.status().expect("cc").success());
            command.env("LD_PRELOAD", &library);
        }
        let server = TestServer::start_command(command, &grove);
        let url = format!("{}/webhooks/github", server.address);
        let until = Instant::now() + Duration::from_secs(10);
        let url = url.as_str();
        let send = move |connection: usize| {
            let agent = ureq::Agent::new_with_defaults();
            let mut times = Vec::new();
            while Instant::now() < until {
                let id = format!("{connection}-{}", times.len());
                let body = json!({
                    "action": "created",
                    "issue": { "number": connection + 1, "title": "Slow", "body": "x".repeat(9_500) },
                    "comment": { "id": times.len(), "body": format!("@grove {id}"), "user": { "id": 1, "login": "alice" } },
                    "repository": { "id": 3, "full_name": "octo/shop" },
                });
                let body = body.to_string();
                let signed = grove_testkit::github::sign_body(WEBHOOK_SECRET, body.as_bytes());
                let began = Instant::now();
                let request = agent.post(url).header("x-github-event", "issue_comment");
                let request = request.header("x-github-delivery", &id).header("x-hub-signature-256", &signed);
                request.send(body.as_bytes()).expect("taken");
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            times
        };
        let mut times: Vec<f64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|connection| scope.spawn(move || send(connection))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
        });
        let kept = server.call_api("GET", "/api/status", None).json()["adapters"]["github"]["waiting"].as_u64();
        assert_eq!(kept, u64::try_from(times.len()).ok(), "nothing is lost");
        times.sort_by(f64::total_cmp);
        let (rate, most) = (times.len() as f64 / 10.0, times[times.len() * 99 / 100]);
        let figure = format!("{rate:.0} per s, p99 {most:.1} ms");
        print_figure(&format!("{what}, nothing lost"), &figure, "≥500 per s", rate >= 500.0);
    }
}

fn unix_seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs_f64() * 1e3
}

fn print_figure(what: &str, figure: &str, aim: &str, reached: bool) {
    println!("{what:<60} {figure:>22}   aim {aim:<10} {}", if reached { "reached" } else { "MISSED" });
}

fn registered_sandbox() -> Sandbox {
    let grove = Sandbox::new(env!("CARGO_BIN_EXE_grove"), make_repository(50));
    grove.grove(["codebase", "add", "--json"]).assert_success();
    grove
}

/// Measures from the start of the process to the line that says that it is ready.
fn bench_start() {
    let grove = registered_sandbox();
    for (what, fresh) in [("ready, with a store that is there", false), ("ready, with a new store", true)] {
        let mut times: Vec<f64> = (0..20)
            .map(|_| {
                if fresh {
                    fs::remove_dir_all(grove.grove_home()).expect("GROVE_HOME");
                }
                let began = Instant::now();
                let mut server = TestServer::start(&grove);
                let took = began.elapsed();
                server.terminate();
                took.as_secs_f64() * 1e3
            })
            .collect();
        let figure = median(&mut times);
        print_figure(what, &format!("{figure:.1} ms"), "≤150 ms", figure <= 150.0);
    }
}

fn bench_idle() {
    let grove = registered_sandbox();
    let server = TestServer::start(&grove);
    std::thread::sleep(Duration::from_secs(5));
    let resident = resident_megabytes(&server);
    print_figure("resident when idle, after 5 s", &format!("{resident:.1} MB"), "≤40 MB", resident <= 40.0);
}

/// Sends a thousand messages in fifty conversations, which share five environments.
fn bench_load() {
    let grove = registered_sandbox();
    let server = TestServer::start(&grove);
    let conversation = |n: usize| format!("load-{}", n % 50);
    let say = |n: usize| {
        server.say_with(&issue_message(&conversation(n), "true", n % 5));
    };
    // The environments are made before the measurement.
    (0..5).for_each(&say);
    (0..5).for_each(|n| wait_until_settled(&server, &conversation(n)));
    let began = Instant::now();
    // In waves of one size: a longer queue takes more memory, but that is no growth.
    let after_wave = |wave: usize| {
        (wave * 200..(wave + 1) * 200).for_each(&say);
        (0..50).for_each(|n| wait_until_settled(&server, &conversation(n)));
        resident_megabytes(&server)
    };
    let waves: Vec<f64> = (0..5).map(after_wave).collect();
    let (took, first, last) = (began.elapsed(), waves[0], waves[4]);
    let growth = (last / first - 1.0) * 100.0;
    let figure = format!("{first:.1} → {last:.1} MB, {growth:+.1} %");
    print_figure("resident after 200 messages → after 1,000", &figure, "≤+5 %", growth <= 5.0);
    println!("{:<60} {:>22}", "messages worked on, an agent each", format!("{:.1} per s", 1000.0 / took.as_secs_f64()));
}

/// Measures the acknowledgement of messages at a steady rate while ten agents run.
fn bench_latency() {
    let grove = registered_sandbox();
    let server = TestServer::start(&grove);
    let sleeper = |n: usize| format!("sleeper-{n}");
    for n in 0..10 {
        server.say_with(&issue_message(&sleeper(n), "true", n));
    }
    (0..10).for_each(|n| wait_until_settled(&server, &sleeper(n)));
    for n in 0..10 {
        server.say_with(&issue_message(&sleeper(n), "echo $$ > pid; exec sleep 30", n));
    }
    let pids = || agent_pids(&server);
    while pids().len() < 10 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (every, senders, count) = (Duration::from_millis(20), 10, 500);
    let began = Instant::now() + Duration::from_millis(100);
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let send = |sender: usize| {
            let server = &server;
            // A message that is late because the one before was slow counts from the time it was due.
            let one = move |n: usize| {
                let due = began + every * u32::try_from(n).expect("few");
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                server.say_with(&issue_message(&format!("other-{}", n % 20), "true", n % 10));
                due.elapsed().as_secs_f64() * 1e3
            };
            scope.spawn(move || (sender..count).step_by(senders).map(one).collect::<Vec<f64>>())
        };
        let all: Vec<_> = (0..senders).map(send).collect();
        all.into_iter().flat_map(|sent| sent.join().expect("a sender")).collect()
    });
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
    let figure = format!("{:.1} / {:.1} / {:.1} ms", at(0.5), at(0.99), at(1.0));
    print_figure("acknowledged at 50 per s beside 10 agents, p50 / p99 / max", &figure, "p99 ≤50 ms", at(0.99) <= 50.0);
    // The agents end with the server.
    let pids = pids();
    drop(server);
    while pids.iter().any(|pid| is_alive(pid)) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a message of work on the `n`th issue.
fn issue_message(conversation: &str, text: &str, n: usize) -> Value {
    let hints = json!({ "workflowType": "issue", "workflowId": n + 1 });
    json!({ "conversationId": conversation, "message": text, "hints": hints })
}

/// Waits until a conversation is idle. It polls seldom, so that the polling does not disturb the figures.
fn wait_until_settled(server: &TestServer, conversation: &str) {
    while !server.current_messages(conversation).0 {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the resident memory, in MB of a million bytes.
fn resident_megabytes(server: &TestServer) -> f64 {
    of_status(server, "VmRSS:")
}

/// Returns the megabytes that the kernel counts under a name.
fn of_status(server: &TestServer, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024.0 / 1e6
}

/// Returns the processes of the agents that sleep.
fn agent_pids(server: &TestServer) -> Vec<String> {
    let all = server.call_api("GET", "/api/worktrees", None).json();
    let paths = all.as_array().expect("a list").iter().filter_map(|one| one["path"].as_str().map(str::to_owned));
    paths.filter_map(|path| fs::read_to_string(format!("{path}/pid")).ok()).filter(|pid| !pid.is_empty()).collect()
}
