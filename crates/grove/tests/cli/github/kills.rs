//! Killed between what is stored and what is sent, again and again.
//!
//! The fake holds a request of the server's, before or after it did what it was asked for; then the
//! server is killed, and never learns the outcome of the request.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use grove_store::{Store, StoreOptions};
use grove_testkit::github::{BOT_LOGIN, RequestFault};
use grove_testkit::{SeededRandom, both_engines, is_long_run, wait_for};

use super::GithubTest;

/// Where the server is when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KillPoint {
    /// It sends a short answer.
    Short(RequestProgress),
    /// It looks what of an answer is there, after it was killed while it sent that.
    LookUp,
    /// It sends one of the parts of a long answer.
    Part(usize, RequestProgress),
    /// It shows a growing answer for the first time; the agent still works.
    Draft(RequestProgress),
    /// It makes a growing answer the final one.
    LastWords(RequestProgress),
    /// It has said that it took a delivery: anywhere between there and the answer.
    Acknowledged,
    /// A delivery comes in.
    Told,
    /// An answer was sent: just before that is noted, or just after.
    Sent,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestProgress {
    NotDone,
    Done,
}

impl RequestProgress {
    fn to_fault(self) -> RequestFault {
        match self {
            RequestProgress::NotDone => RequestFault::HoldBefore,
            RequestProgress::Done => RequestFault::HoldAfter,
        }
    }
}

/// One of each; ten kills.
fn kill_points(number: usize) -> [KillPoint; 9] {
    let (one, other) = if number.is_multiple_of(2) {
        (RequestProgress::Done, RequestProgress::NotDone)
    } else {
        (RequestProgress::NotDone, RequestProgress::Done)
    };
    [
        KillPoint::Short(RequestProgress::NotDone),
        KillPoint::LookUp,
        KillPoint::Acknowledged,
        KillPoint::Part(1 + number % 3, RequestProgress::Done),
        KillPoint::Sent,
        KillPoint::LastWords(other),
        KillPoint::Told,
        KillPoint::Part(1 + (number + 1) % 3, RequestProgress::NotDone),
        KillPoint::Draft(one),
    ]
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum AnswerKind {
    Short,
    /// In three comments.
    Long,
    /// Grows until the test lets it end.
    Growing,
}

#[derive(Debug)]
struct PostedQuestion {
    number: usize,
    kind: AnswerKind,
    /// Its answer was in the store before anything was killed: an interruption is no answer to it.
    sure: bool,
}

const LONG_ANSWER_LINES: usize = 9_000;

impl PostedQuestion {
    fn expected_answer(&self) -> String {
        let number = self.number;
        match self.kind {
            AnswerKind::Short => format!("answer-{number}"),
            AnswerKind::Long => {
                (1..=LONG_ANSWER_LINES).map(|line| format!("line {line} of {number}")).collect::<Vec<_>>().join("\n")
            }
            AnswerKind::Growing => format!("begin-{number}\nend-{number}"),
        }
    }

    /// Whether a text answers it.
    fn is_answered_by(&self, text: &str) -> bool {
        text == self.expected_answer()
            || (!self.sure && is_interruption(text) && text.contains(&format!("true q{};", self.number)))
    }
}

fn is_interruption(text: &str) -> bool {
    text.contains("was interrupted by a restart")
}

struct ServerKillTest {
    office: GithubTest,
    url: String,
    dice: SeededRandom,
    /// By thread.
    asked: BTreeMap<u64, Vec<PostedQuestion>>,
    number: usize,
    killed: BTreeMap<KillPoint, usize>,
}

impl ServerKillTest {
    fn gate_path(&self, number: usize) -> PathBuf {
        self.office.grove.repo.temp_dir().join(format!("gate-{number}"))
    }

    /// Records a new question with the answer that is expected, and returns its text.
    fn add_question(&mut self, thread: u64, kind: AnswerKind, sure: bool) -> String {
        self.number += 1;
        let number = self.number;
        let command = match kind {
            AnswerKind::Short => format!("echo answer-{number}"),
            AnswerKind::Long => format!("seq -f 'line %g of {number}' {LONG_ANSWER_LINES}"),
            AnswerKind::Growing => {
                let gate = self.gate_path(number);
                let wait = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
                format!("echo begin-{number}; {wait}; echo end-{number}")
            }
        };
        self.asked.entry(thread).or_default().push(PostedQuestion { number, kind, sure });
        format!("@grove true q{number}; {command}")
    }

    fn post_question(&mut self, thread: u64, kind: AnswerKind, sure: bool) -> usize {
        let words = self.add_question(thread, kind, sure);
        self.office.github.comment("alice", thread, &words);
        self.number
    }

    fn some_thread(&mut self) -> u64 {
        let at = self.dice.next_below(self.asked.len() as u64);
        *self.asked.keys().nth(usize::try_from(at).expect("few")).expect("a thread")
    }

    /// Others speak, too.
    fn post_other_questions(&mut self, but: u64) {
        for _ in 0..=self.dice.next_below(3) {
            let thread = self.some_thread();
            if thread != but {
                self.post_question(thread, AnswerKind::Short, false);
            }
        }
    }

    fn kill_server(&mut self, aim: KillPoint) {
        self.office.server.kill();
        self.office.github.let_go();
        *self.killed.entry(aim).or_default() += 1;
        self.office.restart_server();
    }

    #[track_caller]
    fn kill_when_held(&mut self, aim: KillPoint) {
        let held = self.office.github.holds_soon(Duration::from_secs(30));
        assert!(held, "{aim:?}: {:#?}", self.office.server.take_log_lines());
        self.kill_server(aim);
    }

    fn comments_path(thread: u64) -> String {
        format!("/repos/octo/shop/issues/{thread}/comments")
    }

    /// Holds the next comment of a thread, after so many that are let through.
    fn hold_post(&self, thread: u64, spared: usize, wire: RequestProgress) {
        let path = Self::comments_path(thread);
        if spared > 0 {
            self.office.github.fail_next_of("POST", &path, spared, RequestFault::Spared);
        }
        self.office.github.fail_next_of("POST", &path, 1, wire.to_fault());
    }

    fn kill_at(&mut self, aim: KillPoint) {
        let github = self.office.github.clone();
        if matches!(
            aim,
            KillPoint::Short(_)
                | KillPoint::LookUp
                | KillPoint::Part(..)
                | KillPoint::Draft(_)
                | KillPoint::LastWords(_)
        ) {
            self.office.at_rest();
        }
        let thread = self.some_thread();
        match aim {
            KillPoint::Short(wire) => {
                self.hold_post(thread, 0, wire);
                self.post_question(thread, AnswerKind::Short, true);
                self.post_other_questions(thread);
                self.kill_when_held(aim);
            }
            KillPoint::LookUp => {
                self.hold_post(thread, 0, RequestProgress::Done);
                self.post_question(thread, AnswerKind::Short, true);
                assert!(github.holds_soon(Duration::from_secs(30)));
                github.fail_next_of("GET", &Self::comments_path(thread), 1, RequestFault::HoldBefore);
                self.kill_server(KillPoint::Short(RequestProgress::Done));
                self.kill_when_held(aim);
            }
            KillPoint::Part(part, wire) => {
                self.hold_post(thread, part - 1, wire);
                self.post_question(thread, AnswerKind::Long, true);
                self.post_other_questions(thread);
                self.kill_when_held(aim);
            }
            KillPoint::Draft(wire) => {
                self.hold_post(thread, 0, wire);
                self.post_question(thread, AnswerKind::Growing, false);
                self.kill_when_held(aim);
            }
            KillPoint::LastWords(wire) => {
                let number = self.post_question(thread, AnswerKind::Growing, true);
                let grows = format!("begin-{number}\n\n…");
                wait_for(|| self.office.bot_replies(thread).contains(&grows));
                github.fail_next_of("PATCH", "/issues/comments/", 1, wire.to_fault());
                fs::write(self.gate_path(number), "").unwrap();
                self.kill_when_held(aim);
            }
            KillPoint::Acknowledged => {
                // A new thread, so that it is killed while its worktree is made, too.
                let next = self.asked.keys().next_back().expect("a thread") + 1;
                let words = self.add_question(next, AnswerKind::Short, false);
                assert_eq!(github.open_issue("alice", "Another", &words), next);
                self.post_question(thread, AnswerKind::Short, false);
                std::thread::sleep(Duration::from_millis(self.dice.next_below(400)));
                self.kill_server(aim);
            }
            KillPoint::Told => {
                let (words, speaking) = (self.add_question(thread, AnswerKind::Short, false), github.clone());
                let speaker = std::thread::spawn(move || speaking.comment("alice", thread, &words));
                std::thread::sleep(Duration::from_micros(self.dice.next_below(20_000)));
                self.kill_server(aim);
                let comment = speaker.join().unwrap();
                // A person who sees on GitHub that the delivery failed would redeliver it, too.
                let untaken = github.deliveries().into_iter().filter(|delivery| {
                    let payload: serde_json::Value = serde_json::from_str(&delivery.payload).unwrap();
                    payload["comment"]["id"] == comment && delivery.status / 100 != 2
                });
                for delivery in untaken {
                    assert_eq!(github.redeliver(&delivery.id), 202);
                }
            }
            KillPoint::Sent => {
                let sent = || github.count_requests("POST", "/comments");
                let before = sent();
                self.post_question(thread, AnswerKind::Short, false);
                self.post_other_questions(thread);
                wait_for(|| sent() > before);
                std::thread::sleep(Duration::from_micros(self.dice.next_below(6_000)));
                self.kill_server(aim);
            }
        }
    }

    /// What is in the store of a thread, in order.
    fn stored_texts(&self, thread: u64) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::open(&self.url, StoreOptions::default()).await.unwrap();
            let mut known = store.conversations_called(&format!("octo/shop#{thread}")).await.unwrap();
            assert_eq!(known.len(), 1, "{thread}");
            let said = store.outbox_entries(known.remove(0).id).await.unwrap();
            store.close().await;
            said.into_iter().map(|said| said.text).collect()
        })
    }

    /// What GitHub shows of a thread: the comments of one name are one text.
    fn shown_texts(&self, thread: u64) -> Vec<String> {
        let mut texts: Vec<(String, Vec<String>)> = Vec::new();
        for comment in self.office.github.comments(thread).into_iter().filter(|comment| comment.author == BOT_LOGIN) {
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
    fn check_replies(&self) -> (usize, usize, usize) {
        let (mut replies, mut answered, mut interrupted) = (0, 0, 0);
        for (thread, questions) in &self.asked {
            let shown = self.shown_texts(*thread);
            assert!(shown == self.stored_texts(*thread), "{thread}: {shown:#?} {:#?}", self.stored_texts(*thread));
            replies += shown.len();
            let is_answer = |text: &&String| {
                is_interruption(text) || questions.iter().any(|question| question.expected_answer() == **text)
            };
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
        let kills = if is_long_run() { 100 } else { 10 };
        let began = Instant::now();
        let seed = 38;
        println!("seed {seed}");
        let url = store.url.clone();
        let office = GithubTest::open(store);
        let (dice, asked, killed) = (SeededRandom(seed), BTreeMap::new(), BTreeMap::new());
        let mut story = ServerKillTest { office, url, dice, asked, number: 0, killed };
        for _ in 0..3 {
            let thread = story.office.github.open_issue("alice", "Much to do", "");
            story.post_question(thread, AnswerKind::Short, true);
        }
        (0..kills / 10).flat_map(kill_points).for_each(|aim| story.kill_at(aim));
        story.office.at_rest();
        let (replies, answered, interrupted) = story.check_replies();
        println!(
            "{} kills in {} s: {} questions in {} threads, {replies} replies, 0 lost, 0 doubled; \
             {answered} answered, {interrupted} interrupted; {:?}",
            story.killed.values().sum::<usize>(), began.elapsed().as_secs(), story.number, story.asked.len(), story.killed
        );
    }
}
