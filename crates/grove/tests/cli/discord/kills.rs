//! Killed between what is stored and what is sent, again and again.
//!
//! The fake holds a request of the server's, before or after it did what it was asked for; then the server is
//! killed, and never learns the outcome of the request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use grove_platforms::split::{MessageLimit, split_message};
use grove_store::{Store, StoreOptions};
use grove_testkit::discord::DiscordFault;
use grove_testkit::{SeededRandom, both_engines, is_long_run, wait_for};

use super::{DiscordTest, LAST_LINE_AGENT};

/// Where the server is when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KillPoint {
    /// It sends a short answer, which arrives or does not.
    Short { arrives: bool },
    /// It sends one of the parts of a long answer.
    Part { part: usize, arrives: bool },
    /// It makes the thread of a mention.
    Thread { arrives: bool },
    /// It looks for an answer, after it was killed while it sent that.
    LookUp,
    /// A message comes in.
    Told,
    /// An answer was sent: just before that is noted, or just after.
    Sent,
}

fn kill_points(round: usize) -> [KillPoint; 9] {
    let arrives = round.is_multiple_of(2);
    [
        KillPoint::Short { arrives: true },
        KillPoint::Short { arrives: false },
        KillPoint::Told,
        KillPoint::Part { part: 1 + round % 3, arrives },
        KillPoint::Thread { arrives: true },
        KillPoint::Sent,
        KillPoint::LookUp,
        KillPoint::Thread { arrives: false },
        KillPoint::Part { part: 1 + (round + 1) % 3, arrives: !arrives },
    ]
}

const LONG_ANSWER_LINES: usize = 250;

struct DiscordKillTest {
    test: DiscordTest,
    url: String,
    dice: SeededRandom,
    /// The expected answers, by thread.
    asked: BTreeMap<u64, Vec<String>>,
    number: usize,
    killed: BTreeMap<KillPoint, usize>,
}

impl DiscordKillTest {
    fn short_question(&mut self) -> (String, String) {
        self.number += 1;
        (format!("true q{0}; echo answer-{0}", self.number), format!("answer-{}", self.number))
    }

    fn long_question(&mut self) -> (String, String) {
        self.number += 1;
        let number = self.number;
        let lines: Vec<String> = (1..=LONG_ANSWER_LINES).map(|line| format!("line {line} of long {number}")).collect();
        (format!("true q{number}; seq -f 'line %g of long {number}' {LONG_ANSWER_LINES}"), lines.join("\n"))
    }

    fn ask(&mut self, thread: u64, question: (String, String)) {
        self.asked.entry(thread).or_default().push(question.1);
        self.test.discord.say("alice", thread, &question.0);
    }

    fn open_thread(&mut self) -> u64 {
        let question = self.short_question();
        let thread = self.test.mention("alice", &question.0);
        self.asked.entry(thread).or_default().push(question.1);
        thread
    }

    fn some_thread(&mut self) -> u64 {
        let at = self.dice.next_below(self.asked.len() as u64);
        *self.asked.keys().nth(usize::try_from(at).unwrap()).unwrap()
    }

    fn hold(&self, path: &str, spared: usize, arrives: bool) {
        if spared > 0 {
            self.test.discord.fail_next_of("POST", path, spared, DiscordFault::Spared);
        }
        let fault = if arrives { DiscordFault::HoldAfter } else { DiscordFault::HoldBefore };
        self.test.discord.fail_next_of("POST", path, 1, fault);
    }

    fn kill_server(&mut self, point: KillPoint) {
        self.test.server.kill();
        self.test.discord.let_go();
        *self.killed.entry(point).or_default() += 1;
        self.test.restart_server();
    }

    #[track_caller]
    fn kill_when_held(&mut self, point: KillPoint) {
        let held = self.test.discord.holds_soon(Duration::from_secs(30));
        assert!(held, "{point:?}: {:#?}", self.test.server.take_log_lines());
        self.kill_server(point);
    }

    fn kill_at(&mut self, point: KillPoint) {
        wait_for(|| self.test.discord.is_connected());
        self.test.at_rest();
        let thread = self.some_thread();
        let path = format!("/channels/{thread}/messages");
        match point {
            KillPoint::Short { arrives } => {
                self.hold(&path, 0, arrives);
                let question = self.short_question();
                self.ask(thread, question);
                self.kill_when_held(point);
            }
            KillPoint::Part { part, arrives } => {
                self.hold(&path, part - 1, arrives);
                let question = self.long_question();
                self.ask(thread, question);
                self.kill_when_held(point);
            }
            KillPoint::Thread { arrives } => {
                self.hold("/threads", 0, arrives);
                let thread = self.open_thread();
                self.kill_when_held(point);
                let question = self.short_question();
                wait_for(|| self.test.discord.thread_name(thread).is_some());
                self.ask(thread, question);
            }
            KillPoint::LookUp => {
                self.hold(&path, 0, true);
                let question = self.short_question();
                self.ask(thread, question);
                assert!(self.test.discord.holds_soon(Duration::from_secs(30)));
                self.test.discord.forget_nonces();
                let fault = DiscordFault::HoldBefore;
                self.test.discord.fail_next_of("GET", &path, 1, fault);
                self.kill_server(KillPoint::Short { arrives: true });
                self.kill_when_held(point);
            }
            KillPoint::Told => {
                let question = self.short_question();
                self.ask(thread, question);
                std::thread::sleep(Duration::from_micros(self.dice.next_below(20_000)));
                self.kill_server(point);
            }
            KillPoint::Sent => {
                let discord = self.test.discord.clone();
                let sent = || discord.count_requests("POST", "/messages");
                let before = sent();
                let question = self.short_question();
                self.test.discord.say("alice", thread, &question.0);
                wait_for(|| sent() > before);
                self.asked.entry(thread).or_default().push(question.1);
                std::thread::sleep(Duration::from_micros(self.dice.next_below(6_000)));
                self.kill_server(point);
            }
        }
    }

    /// What is in the store of a thread, in order, as messages.
    fn stored_texts(&self, thread: u64) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let texts: Vec<String> = runtime.block_on(async {
            let store = Store::open(&self.url, StoreOptions::default()).await.unwrap();
            let mut known = store.conversations_called(&thread.to_string()).await.unwrap();
            assert_eq!(known.len(), 1, "{thread}");
            let said = store.outbox_entries(known.remove(0).id).await.unwrap();
            store.close().await;
            said.into_iter().map(|said| said.text).collect()
        });
        let parts = texts.iter().flat_map(|text| split_message(text, MessageLimit::DISCORD));
        parts.map(|part| part.trim().to_owned()).collect()
    }

    /// Every reply that was stored is there, once, whole and in order, and every question has its answer.
    fn check_replies(&self) -> (usize, usize, usize) {
        let (mut replies, mut answered, mut interrupted) = (0, 0, 0);
        for (thread, expected) in &self.asked {
            let shown = self.test.discord.bot_texts(*thread);
            assert_eq!(shown, self.stored_texts(*thread), "{thread}");
            replies += shown.len();
            let all = shown.join("\n");
            let mut at = 0;
            for answer in expected {
                let number = answer.rsplit(['-', ' ']).next().unwrap();
                let is_interrupted =
                    all.contains(&format!("true q{number};")) && all.contains("was interrupted by a restart");
                match all[at..].find(answer.as_str()) {
                    Some(found) => {
                        at += found + answer.len();
                        answered += 1;
                    }
                    None if is_interrupted => interrupted += 1,
                    None => panic!("{thread}: {answer} is lost: {shown:#?}"),
                }
                let lines = shown.iter().filter(|text| text == &answer).count();
                assert!(lines <= 1, "{thread}: {answer} is doubled");
            }
        }
        (replies, answered, interrupted)
    }
}

both_engines! {
    fn no_reply_is_lost_or_doubled_however_often_the_server_is_killed(store: TestStore) {
        let rounds = if is_long_run() { 10 } else { 1 };
        let (began, url) = (Instant::now(), store.url.clone());
        let test = DiscordTest::on_store(store, LAST_LINE_AGENT);
        let (dice, asked, killed) = (SeededRandom(38), BTreeMap::new(), BTreeMap::new());
        let mut story = DiscordKillTest { test, url, dice, asked, number: 0, killed };
        for _ in 0..2 {
            let thread = story.open_thread();
            story.test.wait_for_texts(thread, 2);
        }
        (0..rounds).flat_map(kill_points).for_each(|point| story.kill_at(point));
        wait_for(|| story.test.discord.is_connected());
        story.test.at_rest();
        let (replies, answered, interrupted) = story.check_replies();
        println!(
            "{} kills in {} s: {} questions in {} threads, {replies} messages, 0 lost, 0 doubled; \
             {answered} answered, {interrupted} interrupted; {:?}",
            story.killed.values().sum::<usize>(), began.elapsed().as_secs(), story.number, story.asked.len(), story.killed
        );
    }
}
