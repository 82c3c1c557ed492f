//! Killed between what is stored and what is sent, again and again.
//!
//! The fake holds a request of the server's, before or after it did what it was asked for; then the server is
//! killed, and never learns the outcome of the request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use grove_testkit::slack::SlackFault;
use grove_testkit::{SeededRandom, TestStore, is_long_run, on_sqlite};

use super::{EventInput, SlackTest};

/// Where the server is when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KillPoint {
    /// It posts a short answer; `true` if Slack has carried that out.
    Short(bool),
    /// It looks what of an answer is there, after it was killed while it posted that.
    LookUp,
    /// It posts one of the parts of a long answer.
    Part(usize, bool),
    /// It uploads a very long answer as a file.
    File(bool),
    /// It has accepted messages: anywhere between there and the answers.
    AnyTime,
}

fn kill_points(round: usize) -> [KillPoint; 9] {
    let done = round.is_multiple_of(2);
    [
        KillPoint::Short(false),
        KillPoint::AnyTime,
        KillPoint::Part(1 + round % 3, true),
        KillPoint::LookUp,
        KillPoint::File(done),
        KillPoint::AnyTime,
        KillPoint::Part(1 + (round + 1) % 3, false),
        KillPoint::Short(true),
        KillPoint::File(!done),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerKind {
    Short,
    /// In three messages.
    Long,
    /// As a file.
    File,
}

#[derive(Debug)]
struct PostedQuestion {
    number: usize,
    kind: AnswerKind,
    /// Its answer was in the store before anything was killed: an interruption is no answer to it.
    sure: bool,
}

impl PostedQuestion {
    fn lines(&self) -> usize {
        match self.kind {
            AnswerKind::Short => 1,
            AnswerKind::Long => 2_000,
            AnswerKind::File => 6_000,
        }
    }

    fn expected_answer(&self) -> String {
        (1..=self.lines()).map(|line| format!("line {line} of {}", self.number)).collect::<Vec<_>>().join("\n")
    }
}

/// One text of the bot: the messages of one id, or a file.
#[derive(Debug)]
struct ShownText {
    id: String,
    text: String,
    parts: usize,
}

struct ServerKillTest {
    test: SlackTest,
    dice: SeededRandom,
    /// By thread.
    asked: BTreeMap<String, Vec<PostedQuestion>>,
    number: usize,
    killed: BTreeMap<KillPoint, usize>,
}

impl ServerKillTest {
    fn start_thread(&mut self) {
        self.number += 1;
        let question = PostedQuestion { number: self.number, kind: AnswerKind::Short, sure: true };
        let thread = self.test.slack.say("alice", "C1", &format!("@grove {}", question_text(&question)));
        self.asked.insert(thread, vec![question]);
    }

    fn ask(&mut self, thread: &str, kind: AnswerKind, sure: bool) {
        self.number += 1;
        let question = PostedQuestion { number: self.number, kind, sure };
        self.test.slack.reply("alice", "C1", thread, &question_text(&question));
        self.asked.get_mut(thread).expect("a thread").push(question);
    }

    fn some_thread(&mut self) -> String {
        let at = usize::try_from(self.dice.next_below(self.asked.len() as u64)).expect("few");
        self.asked.keys().nth(at).expect("a thread").clone()
    }

    fn ask_others(&mut self, but: &str) {
        for _ in 0..=self.dice.next_below(3) {
            let thread = self.some_thread();
            if thread != but {
                self.ask(&thread, AnswerKind::Short, false);
            }
        }
    }

    fn kill(&mut self, point: KillPoint) {
        self.test.server.kill();
        self.test.slack.let_go();
        *self.killed.entry(point).or_default() += 1;
        self.test.restart_server();
    }

    #[track_caller]
    fn kill_when_held(&mut self, point: KillPoint) {
        let held = self.test.slack.holds_soon(Duration::from_secs(30));
        assert!(held, "{point:?}: {:#?}", self.test.server.take_log_lines());
        self.kill(point);
    }

    fn hold(&self, method: &str, spared: usize, done: bool) {
        if spared > 0 {
            self.test.slack.fail_next(method, spared, SlackFault::Spared);
        }
        self.test.slack.fail_next(method, 1, if done { SlackFault::HoldAfter } else { SlackFault::HoldBefore });
    }

    fn kill_at(&mut self, point: KillPoint) {
        if point != KillPoint::AnyTime {
            self.wait_until_answered();
        }
        let thread = self.some_thread();
        match point {
            KillPoint::Short(done) => {
                self.hold("chat.postMessage", 0, done);
                self.ask(&thread, AnswerKind::Short, true);
                self.kill_when_held(point);
            }
            KillPoint::LookUp => {
                self.hold("chat.postMessage", 0, true);
                self.ask(&thread, AnswerKind::Short, true);
                assert!(self.test.slack.holds_soon(Duration::from_secs(30)));
                self.test.server.kill();
                self.test.slack.let_go();
                self.hold("conversations.replies", 0, true);
                self.test.restart_server();
                self.kill_when_held(point);
            }
            KillPoint::Part(part, done) => {
                self.hold("chat.postMessage", part - 1, done);
                self.ask(&thread, AnswerKind::Long, true);
                self.kill_when_held(point);
            }
            KillPoint::File(done) => {
                self.hold("files.completeUploadExternal", 0, done);
                self.ask(&thread, AnswerKind::File, true);
                self.ask_others(&thread);
                self.kill_when_held(point);
            }
            KillPoint::AnyTime => {
                self.ask(&thread, AnswerKind::Short, false);
                self.ask_others("");
                std::thread::sleep(Duration::from_millis(self.dice.next_below(400)));
                self.kill(point);
            }
        }
    }

    /// Returns what people see of a thread.
    #[track_caller]
    fn shown_texts(&self, thread: &str) -> Vec<ShownText> {
        let mut texts: Vec<ShownText> = Vec::new();
        for message in self.test.slack.bot_messages("C1", thread) {
            if let Some(file) = message.files.first() {
                // The beginning of the answer stands before it.
                let name = file["name"].as_str().expect("a name");
                let id = name.trim_start_matches("answer-").trim_end_matches(".md");
                let last = texts.last_mut().expect("its beginning");
                assert!(last.id == id && last.text.contains("The whole answer is in the file below"), "{last:?}");
                last.text = self.test.slack.file_content(file["id"].as_str().expect("an id")).trim_end().to_owned();
                continue;
            }
            let payload = &message.metadata["event_payload"];
            let (id, part) = (payload["id"].as_str().expect("an id"), payload["part"].as_u64().expect("a part"));
            match texts.last_mut().filter(|last| last.id == id) {
                Some(last) => {
                    last.text = format!("{}\n{}", last.text.trim_end(), message.text.trim_end());
                    last.parts += 1;
                }
                None => texts.push(ShownText { id: id.to_owned(), text: message.text.trim_end().to_owned(), parts: 1 }),
            }
            assert_eq!(texts.last().expect("one").parts as u64, part, "{thread}: a part is doubled or not in order");
        }
        texts
    }

    fn is_answered(&self) -> bool {
        let answers = |thread: &String| self.shown_texts(thread).iter().filter(|shown| is_answer(&shown.text)).count();
        self.test.is_at_rest() && self.asked.iter().all(|(thread, questions)| answers(thread) >= questions.len())
    }

    #[track_caller]
    fn wait_until_answered(&self) {
        let began = Instant::now();
        while !self.is_answered() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:#?}", self.test.server.take_log_lines());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Every question has its answer: once, whole and in order. Returns how many were interrupted.
    fn check_replies(&self) -> usize {
        let mut interrupted = 0;
        for (thread, questions) in &self.asked {
            let shown = self.shown_texts(thread);
            let answers: Vec<&ShownText> = shown.iter().filter(|shown| is_answer(&shown.text)).collect();
            assert_eq!(answers.len(), questions.len(), "{thread}: {questions:#?} {answers:#?}");
            for (question, answer) in questions.iter().zip(answers) {
                let is_cut =
                    is_interruption(&answer.text) && answer.text.contains(&format!("true q{};", question.number));
                assert!(
                    answer.text == question.expected_answer() || (is_cut && !question.sure),
                    "{question:?} {answer:?}"
                );
                interrupted += usize::from(is_cut);
            }
            // At most where it works is said beside.
            assert!(shown.len() <= questions.len() + 1, "{thread}: {shown:#?}");
        }
        interrupted
    }
}

fn question_text(question: &PostedQuestion) -> String {
    format!("true q{0}; seq -f 'line %g of {0}' {1}", question.number, question.lines())
}

fn is_interruption(text: &str) -> bool {
    text.contains("was interrupted by a restart")
}

fn is_answer(text: &str) -> bool {
    is_interruption(text) || text.starts_with("line 1 of ")
}

fn kill_often(store: TestStore, settings: &str, seed: u64) {
    let rounds = if is_long_run() { 11 } else { 1 };
    let began = Instant::now();
    println!("seed {seed}");
    let test = SlackTest::with_settings(store, EventInput::Sockets, super::LAST_LINE_AGENT, settings);
    let (dice, asked, killed) = (SeededRandom(seed), BTreeMap::new(), BTreeMap::new());
    let mut story = ServerKillTest { test, dice, asked, number: 0, killed };
    (0..3).for_each(|_| story.start_thread());
    (0..rounds).flat_map(kill_points).for_each(|point| story.kill_at(point));
    story.kill_at(KillPoint::AnyTime);
    story.wait_until_answered();
    let interrupted = story.check_replies();
    println!(
        "{} kills in {} s: {} questions, 0 lost, 0 doubled, {interrupted} interrupted; {:?}",
        story.killed.values().sum::<usize>(),
        began.elapsed().as_secs(),
        story.number,
        story.killed
    );
}

on_sqlite! {
    fn no_reply_is_lost_or_doubled_however_often_the_server_is_killed(store: TestStore) {
        kill_often(store, "streaming = \"batch\"", 60);
    }
}
