//! Killed between what is stored and what is sent, again and again.
//!
//! The fake holds a request of the server's, before or after it did what it was asked for; then the
//! server is killed, and nobody ever hears what became of the request.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use grove_store::{Options, Store};
use grove_testkit::github::{BOT, Fault};
use grove_testkit::{Dice, both_engines, wait_for};

use super::Office;

/// Where the server is when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aim {
    /// It sends a short answer.
    Short(Wire),
    /// It looks what of an answer is there, after it was killed while it sent that.
    LookUp,
    /// It sends one of the parts of a long answer.
    Part(usize, Wire),
    /// It shows a growing answer for the first time; the agent still works.
    Draft(Wire),
    /// It makes a growing answer the final one.
    LastWords(Wire),
    /// It has said that it took a delivery: anywhere between there and the answer.
    Acknowledged,
    /// A delivery comes in.
    Told,
    /// An answer was sent: just before that is noted, or just after.
    Sent,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wire {
    NotDone,
    Done,
}

impl Wire {
    fn fault(self) -> Fault {
        match self {
            Wire::NotDone => Fault::HoldBefore,
            Wire::Done => Fault::HoldAfter,
        }
    }
}

/// One of each; ten kills.
fn round(number: usize) -> [Aim; 9] {
    let (one, other) = if number.is_multiple_of(2) { (Wire::Done, Wire::NotDone) } else { (Wire::NotDone, Wire::Done) };
    [
        Aim::Short(Wire::NotDone),
        Aim::LookUp,
        Aim::Acknowledged,
        Aim::Part(1 + number % 3, Wire::Done),
        Aim::Sent,
        Aim::LastWords(other),
        Aim::Told,
        Aim::Part(1 + (number + 1) % 3, Wire::NotDone),
        Aim::Draft(one),
    ]
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Short,
    /// In three comments.
    Long,
    /// Grows until the test lets it end.
    Growing,
}

#[derive(Debug)]
struct Question {
    number: usize,
    kind: Kind,
    /// Its answer was in the store before anything was killed: an interruption is no answer to it.
    sure: bool,
}

const LINES: usize = 9_000;

impl Question {
    fn answer(&self) -> String {
        let number = self.number;
        match self.kind {
            Kind::Short => format!("answer-{number}"),
            Kind::Long => (1..=LINES).map(|line| format!("line {line} of {number}")).collect::<Vec<_>>().join("\n"),
            Kind::Growing => format!("begin-{number}\nend-{number}"),
        }
    }

    /// Whether a text answers it.
    fn is_answered_by(&self, text: &str) -> bool {
        text == self.answer()
            || (!self.sure && is_interruption(text) && text.contains(&format!("true q{};", self.number)))
    }
}

fn is_interruption(text: &str) -> bool {
    text.contains("was interrupted by a restart")
}

struct Story {
    office: Office,
    url: String,
    dice: Dice,
    /// By thread.
    asked: BTreeMap<u64, Vec<Question>>,
    number: usize,
    killed: BTreeMap<Aim, usize>,
}

impl Story {
    fn gate(&self, number: usize) -> PathBuf {
        self.office.grove.repo.dir().join(format!("gate-{number}"))
    }

    /// What somebody writes, and what is expected then.
    fn question(&mut self, thread: u64, kind: Kind, sure: bool) -> String {
        self.number += 1;
        let number = self.number;
        let command = match kind {
            Kind::Short => format!("echo answer-{number}"),
            Kind::Long => format!("seq -f 'line %g of {number}' {LINES}"),
            Kind::Growing => {
                let gate = self.gate(number);
                let wait = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
                format!("echo begin-{number}; {wait}; echo end-{number}")
            }
        };
        self.asked.entry(thread).or_default().push(Question { number, kind, sure });
        format!("@grove true q{number}; {command}")
    }

    fn ask(&mut self, thread: u64, kind: Kind, sure: bool) -> usize {
        let words = self.question(thread, kind, sure);
        self.office.github.comment("alice", thread, &words);
        self.number
    }

    fn some_thread(&mut self) -> u64 {
        let at = self.dice.roll(self.asked.len() as u64);
        *self.asked.keys().nth(usize::try_from(at).expect("few")).expect("a thread")
    }

    /// Others speak, too.
    fn chatter(&mut self, but: u64) {
        for _ in 0..=self.dice.roll(3) {
            let thread = self.some_thread();
            if thread != but {
                self.ask(thread, Kind::Short, false);
            }
        }
    }

    fn kill(&mut self, aim: Aim) {
        self.office.server.kill();
        self.office.github.let_go();
        *self.killed.entry(aim).or_default() += 1;
        self.office.restart();
    }

    #[track_caller]
    fn kill_when_held(&mut self, aim: Aim) {
        let held = self.office.github.holds_soon(Duration::from_secs(30));
        assert!(held, "{aim:?}: {:#?}", self.office.server.logged());
        self.kill(aim);
    }

    fn posts(thread: u64) -> String {
        format!("/repos/octo/shop/issues/{thread}/comments")
    }

    /// Holds the next comment of a thread, after so many that are let through.
    fn hold_post(&self, thread: u64, spared: usize, wire: Wire) {
        let path = Self::posts(thread);
        if spared > 0 {
            self.office.github.fail_next_of("POST", &path, spared, Fault::Spared);
        }
        self.office.github.fail_next_of("POST", &path, 1, wire.fault());
    }

    fn shoot(&mut self, aim: Aim) {
        let github = self.office.github.clone();
        if matches!(aim, Aim::Short(_) | Aim::LookUp | Aim::Part(..) | Aim::Draft(_) | Aim::LastWords(_)) {
            self.office.at_rest();
        }
        let thread = self.some_thread();
        match aim {
            Aim::Short(wire) => {
                self.hold_post(thread, 0, wire);
                self.ask(thread, Kind::Short, true);
                self.chatter(thread);
                self.kill_when_held(aim);
            }
            Aim::LookUp => {
                self.hold_post(thread, 0, Wire::Done);
                self.ask(thread, Kind::Short, true);
                assert!(github.holds_soon(Duration::from_secs(30)));
                github.fail_next_of("GET", &Self::posts(thread), 1, Fault::HoldBefore);
                self.kill(Aim::Short(Wire::Done));
                self.kill_when_held(aim);
            }
            Aim::Part(part, wire) => {
                self.hold_post(thread, part - 1, wire);
                self.ask(thread, Kind::Long, true);
                self.chatter(thread);
                self.kill_when_held(aim);
            }
            Aim::Draft(wire) => {
                self.hold_post(thread, 0, wire);
                self.ask(thread, Kind::Growing, false);
                self.kill_when_held(aim);
            }
            Aim::LastWords(wire) => {
                let number = self.ask(thread, Kind::Growing, true);
                let grows = format!("begin-{number}\n\n…");
                wait_for(|| self.office.replies(thread).contains(&grows));
                github.fail_next_of("PATCH", "/issues/comments/", 1, wire.fault());
                fs::write(self.gate(number), "").unwrap();
                self.kill_when_held(aim);
            }
            Aim::Acknowledged => {
                // A new thread, so that it is killed while its worktree is made, too.
                let next = self.asked.keys().next_back().expect("a thread") + 1;
                let words = self.question(next, Kind::Short, false);
                assert_eq!(github.issue("alice", "Another", &words), next);
                self.ask(thread, Kind::Short, false);
                std::thread::sleep(Duration::from_millis(self.dice.roll(400)));
                self.kill(aim);
            }
            Aim::Told => {
                let (words, speaking) = (self.question(thread, Kind::Short, false), github.clone());
                let speaker = std::thread::spawn(move || speaking.comment("alice", thread, &words));
                std::thread::sleep(Duration::from_micros(self.dice.roll(20_000)));
                self.kill(aim);
                let comment = speaker.join().unwrap();
                // As somebody does who sees on GitHub that it was not taken.
                let untaken = github.deliveries().into_iter().filter(|delivery| {
                    let payload: serde_json::Value = serde_json::from_str(&delivery.payload).unwrap();
                    payload["comment"]["id"] == comment && delivery.status / 100 != 2
                });
                for delivery in untaken {
                    assert_eq!(github.redeliver(&delivery.id), 202);
                }
            }
            Aim::Sent => {
                let sent = || github.asked("POST", "/comments");
                let before = sent();
                self.ask(thread, Kind::Short, false);
                self.chatter(thread);
                wait_for(|| sent() > before);
                std::thread::sleep(Duration::from_micros(self.dice.roll(6_000)));
                self.kill(aim);
            }
        }
    }

    /// What is in the store of a thread, in order.
    fn stored(&self, thread: u64) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::open(&self.url, Options::default()).await.unwrap();
            let mut known = store.conversations_called(&format!("octo/shop#{thread}")).await.unwrap();
            assert_eq!(known.len(), 1, "{thread}");
            let said = store.said(known.remove(0).id).await.unwrap();
            store.close().await;
            said.into_iter().map(|said| said.text).collect()
        })
    }

    /// What GitHub shows of a thread: the comments of one name are one text.
    fn shown(&self, thread: u64) -> Vec<String> {
        let mut texts: Vec<(String, Vec<String>)> = Vec::new();
        for comment in self.office.github.comments(thread).into_iter().filter(|comment| comment.author == BOT) {
            let (text, marker) = comment.body.rsplit_once("\n\n<!-- grove ").expect("a marker");
            let (name, part) = marker.strip_suffix(" -->").and_then(|marker| marker.split_once(' ')).expect("a marker");
            match texts.iter_mut().find(|(known, _)| known == name) {
                Some((_, parts)) => parts.push(text.to_owned()),
                None => texts.push((name.to_owned(), vec![text.to_owned()])),
            }
            let (last, parts) = texts.last().expect("one");
            assert!(
                last == name && parts.len().to_string() == part,
                "{thread}: part {part} is doubled or not in order"
            );
        }
        texts.into_iter().map(|(_, parts)| parts.join("\n")).collect()
    }

    /// Every reply that was stored is there, once, whole and in order, and every question has its answer.
    fn check(&self) -> (usize, usize, usize) {
        let (mut replies, mut answered, mut interrupted) = (0, 0, 0);
        for (thread, questions) in &self.asked {
            let shown = self.shown(*thread);
            assert!(shown == self.stored(*thread), "{thread}: {shown:#?} {:#?}", self.stored(*thread));
            replies += shown.len();
            let is_answer =
                |text: &&String| is_interruption(text) || questions.iter().any(|question| question.answer() == **text);
            let answers: Vec<&String> = shown.iter().filter(is_answer).collect();
            assert_eq!(answers.len(), questions.len(), "{thread}: {questions:#?} {answers:#?}");
            for (question, answer) in questions.iter().zip(answers) {
                assert!(question.is_answered_by(answer), "{thread}: {question:?} {answer}");
                *(if is_interruption(answer) { &mut interrupted } else { &mut answered }) += 1;
            }
            // At most where it works is said beside.
            assert!(shown.len() <= questions.len() + 1, "{thread}: {shown:#?}");
        }
        (replies, answered, interrupted)
    }
}

both_engines! {
    fn no_reply_is_lost_or_doubled_however_often_the_server_is_killed(store: TestStore) {
        let kills = if std::env::var_os("GROVE_TEST_LONG").is_some() { 100 } else { 10 };
        let began = Instant::now();
        let seed = 38;
        println!("seed {seed}");
        let url = store.url.clone();
        let office = Office::open(store);
        let (dice, asked, killed) = (Dice(seed), BTreeMap::new(), BTreeMap::new());
        let mut story = Story { office, url, dice, asked, number: 0, killed };
        for _ in 0..3 {
            let thread = story.office.github.issue("alice", "Much to do", "");
            story.ask(thread, Kind::Short, true);
        }
        (0..kills / 10).flat_map(round).for_each(|aim| story.shoot(aim));
        story.office.at_rest();
        let (replies, answered, interrupted) = story.check();
        println!(
            "{} kills in {} s: {} questions in {} threads, {replies} replies, 0 lost, 0 doubled; \
             {answered} answered, {interrupted} interrupted; {:?}",
            story.killed.values().sum::<usize>(), began.elapsed().as_secs(), story.number, story.asked.len(), story.killed
        );
    }
}
