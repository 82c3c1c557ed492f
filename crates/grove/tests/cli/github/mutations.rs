//! Deliveries by the thousand: changed, replayed and made up. Every accepted delivery was signed, every
//! question of a user has one effect, and nothing ends the server.

mod delivery;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use delivery::{FORM_CONTENT_TYPE, SentDelivery, WrittenComment, change_bytes, nonsense_body};
use grove_model::{IncomingPayload, OutboxKind};
use grove_store::{Store, StoreOptions};
use grove_testkit::github::BOT_LOGIN;
use grove_testkit::{SeededRandom, both_engines, is_long_run};

use super::GithubTest;

/// How many threads there are.
const THREAD_COUNT: u64 = 6;

/// What must come of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExpectedEffect {
    /// It is taken, and new.
    New,
    /// It is acknowledged, and nothing is kept of it.
    Known,
    Unsigned,
    Malformed,
    /// It is signed: taken if it makes sense.
    Either,
}

struct DeliveryMutationTest {
    office: GithubTest,
    dice: SeededRandom,
    alice: u64,
    mallory: u64,
    last: u64,
    /// What was taken, and the comment in it, if it was a proper one.
    taken: Vec<(SentDelivery, Option<WrittenComment>)>,
    /// The texts of the users' questions; each has one effect.
    asked: Vec<String>,
    /// How many deliveries were taken that were bent before they were signed: they may say anything.
    bent: usize,
    /// How many of each kind, and what was answered.
    sent: BTreeMap<(&'static str, u16), usize>,
}

impl DeliveryMutationTest {
    fn new_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn new_id(&mut self) -> String {
        format!("delivery-{}", self.new_number())
    }

    /// Returns a question by alice that was not asked before.
    fn new_question(&mut self) -> WrittenComment {
        let (thread, number) = (self.dice.next_below(THREAD_COUNT) + 1, self.new_number());
        let words = format!("say {number} please");
        let body = format!("@grove {words}");
        WrittenComment { thread, id: 1_000_000 + number, author: (self.alice, "alice"), body, version: 0 }
    }

    fn expect_question(&mut self, comment: &WrittenComment) {
        self.asked.push(comment.body.trim_start_matches("@grove ").to_owned());
    }

    fn pick_index(&mut self, from: usize) -> usize {
        usize::try_from(self.dice.next_below(from as u64)).expect("few")
    }

    /// A delivery of before.
    fn earlier_delivery(&mut self) -> SentDelivery {
        let at = self.pick_index(self.taken.len());
        self.taken[at].0.clone()
    }

    /// A comment of before.
    fn earlier_comment(&mut self) -> WrittenComment {
        loop {
            let at = self.pick_index(self.taken.len());
            if let Some(comment) = &self.taken[at].1 {
                return comment.clone();
            }
        }
    }

    /// Sends it, and sees that what was expected comes.
    fn send_delivery(
        &mut self,
        kind: &'static str,
        delivery: SentDelivery,
        comment: Option<WrittenComment>,
        expect: ExpectedEffect,
    ) {
        let answer = delivery.send_to(&self.office.server);
        *self.sent.entry((kind, answer.status)).or_default() += 1;
        let fits = match (expect, answer.status) {
            (ExpectedEffect::New, 202) => answer.json()["new"] == true,
            (ExpectedEffect::Known, 202) => answer.json()["new"] == false,
            (ExpectedEffect::Unsigned, status) => status == 401,
            (ExpectedEffect::Malformed, status) => status == 400,
            (ExpectedEffect::Either, status) => status == 202 || status == 400,
            _ => false,
        };
        assert!(fits, "{kind}: {expect:?}, {answer:?} for {delivery:?}");
        if answer.status == 202 {
            assert!(delivery.is_signed(), "{kind}: taken without being signed: {delivery:?}");
            if answer.json()["new"] == true {
                self.bent += usize::from(expect == ExpectedEffect::Either);
                self.taken.push((delivery, comment));
            }
        }
    }

    /// One of everything that can happen, by chance.
    fn send_random_delivery(&mut self) {
        match self.dice.next_below(100) {
            0..4 => self.asked_anew(),
            4 => {
                let (comment, id) = (self.new_question(), self.new_id());
                self.expect_question(&comment);
                let form = SentDelivery::new_form(&id, &comment.to_payload());
                self.send_delivery("asked by a form", form, Some(comment), ExpectedEffect::New);
            }
            5 => {
                let (number, id) = (self.new_number(), self.new_id());
                let comment = self.earlier_comment();
                let comment =
                    WrittenComment { body: format!("@grove say {number} please"), version: number, ..comment };
                self.expect_question(&comment);
                self.send_delivery(
                    "other words",
                    SentDelivery::new(&id, comment.to_payload()),
                    Some(comment),
                    ExpectedEffect::New,
                );
            }
            6 => self.told_by_four_at_once(),
            7..15 => {
                let delivery = self.earlier_delivery();
                self.send_delivery("the same again", delivery, None, ExpectedEffect::Known);
            }
            15..23 => {
                let (mut delivery, id) = (self.earlier_delivery(), self.new_id());
                delivery.set_header("x-github-delivery", id);
                self.send_delivery("the same under another name", delivery, None, ExpectedEffect::New);
            }
            23..27 => {
                // As no GitHub does: the name was taken, so this is what it was.
                let (comment, name) = (self.new_question(), self.earlier_delivery());
                let mut delivery = SentDelivery::new("", comment.to_payload());
                delivery.set_header("x-github-delivery", name.header_value("x-github-delivery").expect("a name"));
                self.send_delivery("another under the same name", delivery, None, ExpectedEffect::Known);
            }
            27..33 => self.of_no_interest(),
            33..49 => {
                let mut delivery = self.earlier_delivery();
                let before = delivery.body.clone();
                change_bytes(&mut self.dice, &mut delivery.body);
                let expect = if delivery.body == before { ExpectedEffect::Known } else { ExpectedEffect::Unsigned };
                self.send_delivery("changed on its way", delivery, None, expect);
            }
            49..61 => self.signed_badly(),
            61..67 => self.named_badly(),
            67..71 => self.of_another_type(),
            71..75 => {
                let (id, comment) = (self.new_id(), self.earlier_comment());
                let mut delivery = SentDelivery::new(&id, comment.to_payload());
                let (event, expect) = match self.dice.next_below(4) {
                    0 => ("issues", ExpectedEffect::New),
                    1 => ("star", ExpectedEffect::Known),
                    2 => ("pull_request_review", ExpectedEffect::Malformed),
                    _ => ("ping", ExpectedEffect::Known),
                };
                delivery.set_header("x-github-event", event);
                self.send_delivery("as another event", delivery, None, expect);
            }
            75..95 => {
                let (comment, id) = (self.new_question(), self.new_id());
                let mut payload = comment.to_payload();
                (0..=self.dice.next_below(3)).for_each(|_| change_bytes(&mut self.dice, &mut payload));
                self.send_delivery(
                    "bent before it was signed",
                    SentDelivery::new(&id, payload),
                    None,
                    ExpectedEffect::Either,
                );
            }
            _ => {
                let (comment, id) = (self.new_question(), self.new_id());
                let payload = nonsense_body(&mut self.dice, &comment);
                self.send_delivery("signed nonsense", SentDelivery::new(&id, payload), None, ExpectedEffect::Either);
            }
        }
    }

    fn asked_anew(&mut self) {
        let (comment, id) = (self.new_question(), self.new_id());
        self.expect_question(&comment);
        self.send_delivery("asked", SentDelivery::new(&id, comment.to_payload()), Some(comment), ExpectedEffect::New);
    }

    fn told_by_four_at_once(&mut self) {
        let comment = self.new_question();
        self.expect_question(&comment);
        let hooks: Vec<SentDelivery> =
            (0..4).map(|_| SentDelivery::new(&self.new_id(), comment.to_payload())).collect();
        let server = &self.office.server;
        std::thread::scope(|scope| {
            // Each of them twice.
            for delivery in hooks.iter().chain(&hooks) {
                scope.spawn(move || assert_eq!(delivery.send_to(server).status, 202));
            }
        });
        *self.sent.entry(("told by four hooks at once", 202)).or_default() += 8;
        self.taken.extend(hooks.into_iter().map(|delivery| (delivery, Some(comment.clone()))));
    }

    fn of_no_interest(&mut self) {
        let (mut comment, id) = (self.new_question(), self.new_id());
        let kind = match self.dice.next_below(3) {
            0 => {
                comment.author = (self.mallory, "mallory");
                "of an outsider"
            }
            1 => {
                comment.body = comment.body.replace("@grove", "grove");
                "calling nobody"
            }
            _ => {
                let bot = self.office.github.add_user(BOT_LOGIN, "write");
                comment.author = (bot, BOT_LOGIN);
                comment.body += "\n\n<!-- grove 0199e4b0-7a3c-7c3e-9e63-1f0c7c0a9b11 1 -->";
                "of the bot itself"
            }
        };
        self.send_delivery(kind, SentDelivery::new(&id, comment.to_payload()), None, ExpectedEffect::New);
    }

    fn signed_badly(&mut self) {
        const SIGNATURE_HEADER: &str = "x-hub-signature-256";
        let (mut delivery, at) = (self.earlier_delivery(), self.pick_index(71));
        let good = delivery.header_value(SIGNATURE_HEADER).expect("a signature");
        match self.dice.next_below(7) {
            0 => delivery.remove_header(SIGNATURE_HEADER),
            1 => delivery.set_header(SIGNATURE_HEADER, &good[..at]),
            2 => delivery.sign_body("another secret"),
            3 => delivery.set_header(SIGNATURE_HEADER, [&good[..], b"00"].concat()),
            4 => delivery.set_header(SIGNATURE_HEADER, good.to_ascii_uppercase()),
            // The first one counts.
            5 => delivery.headers.insert(0, (SIGNATURE_HEADER, b"sha256=00".to_vec())),
            _ => {
                let mut odd = good.clone();
                odd[at] = match self.dice.next_below(3) {
                    0 => 0xe9,
                    _ => b'!' + u8::try_from(self.dice.next_below(94)).expect("a byte"),
                };
                delivery.set_header(SIGNATURE_HEADER, odd);
            }
        }
        let expect = if delivery.is_signed() { ExpectedEffect::Known } else { ExpectedEffect::Unsigned };
        self.send_delivery("signed badly", delivery, None, expect);
    }

    fn named_badly(&mut self) {
        let (mut delivery, number) = (self.earlier_delivery(), self.new_number());
        let name = if self.dice.one_in(2) { "x-github-event" } else { "x-github-delivery" };
        match self.dice.next_below(4) {
            0 => delivery.remove_header(name),
            1 => delivery.set_header(name, ""),
            2 => delivery.set_header(name, format!("{number:0201}")),
            _ => delivery.set_header(name, b"caf\xe9"),
        }
        self.send_delivery("named badly", delivery, None, ExpectedEffect::Malformed);
    }

    fn of_another_type(&mut self) {
        let (id, comment) = (self.new_id(), self.earlier_comment());
        let mut delivery = SentDelivery::new(&id, comment.to_payload());
        let expect = match self.dice.next_below(7) {
            0 => {
                delivery.remove_header("content-type");
                ExpectedEffect::New
            }
            1 => {
                delivery.set_header("content-type", "multipart/form-data; boundary=x");
                ExpectedEffect::New
            }
            2 => {
                delivery.set_header("content-type", b"caf\xe9");
                ExpectedEffect::New
            }
            3 => {
                // JSON that is said to be a form.
                delivery.set_header("content-type", FORM_CONTENT_TYPE);
                ExpectedEffect::Malformed
            }
            4 => {
                // A form that is said to be JSON.
                delivery = SentDelivery::new_form(&id, &comment.to_payload());
                delivery.set_header("content-type", "application/json");
                ExpectedEffect::Malformed
            }
            5 => {
                delivery = SentDelivery::new_form(&id, &comment.to_payload());
                delivery.body.extend_from_slice(b"&payload=%7B%7D&x=%");
                delivery.sign_body(super::WEBHOOK_SECRET);
                ExpectedEffect::New
            }
            _ => {
                delivery = SentDelivery::new_form(&id, &comment.to_payload());
                delivery.body.extend_from_slice(b"%z");
                delivery.sign_body(super::WEBHOOK_SECRET);
                ExpectedEffect::Malformed
            }
        };
        self.send_delivery("of another type", delivery, None, expect);
    }

    /// Far over what GitHub sends.
    fn send_huge_delivery(&mut self) {
        let id = self.new_id();
        let mut delivery = SentDelivery::new(&id, Vec::new());
        delivery.body = vec![b' '; 25 * 1024 * 1024 + 1];
        let answer = delivery.send_to(&self.office.server);
        assert_eq!(answer.status, 413, "{answer:?}");
        *self.sent.entry(("huge", 413)).or_default() += 1;
    }

    /// Everything that was asked was heard once, was worked on once and was answered once. How many
    /// messages there are.
    fn check_effects(&self, url: &str, runs: &str) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (heard, said) = runtime.block_on(async {
            let store = Store::open(url, StoreOptions::default()).await.unwrap();
            let (mut heard, mut said) = (Vec::new(), Vec::new());
            for conversation in store.recent_conversations("github").await.unwrap() {
                heard.extend(store.conversation_messages(conversation.id).await.unwrap());
                said.extend(store.outbox_entries(conversation.id).await.unwrap());
            }
            store.close().await;
            (heard, said)
        });
        let mut words: BTreeMap<&str, usize> = BTreeMap::new();
        for message in &heard {
            let IncomingPayload::Message { text, .. } = &message.event else { panic!("{message:?}") };
            *words.entry(text).or_default() += 1;
            let answers =
                said.iter().filter(|said| said.manner == OutboxKind::Answer && said.message == Some(message.id));
            assert_eq!(answers.count(), 1, "{message:?}");
        }
        for asked in &self.asked {
            assert_eq!(words.get(asked.as_str()), Some(&1), "{asked}");
            assert_eq!(runs.lines().filter(|run| run == asked).count(), 1, "{asked}");
        }
        assert!(heard.len() <= self.asked.len() + self.bent, "{} of {}", heard.len(), self.asked.len() + self.bent);
        // On GitHub is what was said, and each of it once.
        let shown = (1..=THREAD_COUNT).flat_map(|thread| self.office.github.comments(thread));
        let mut markers: Vec<String> =
            shown.filter_map(|said| Some(said.body.lines().next_back()?.to_owned())).collect();
        assert_eq!(markers.len(), said.len());
        markers.sort_unstable();
        markers.dedup();
        assert_eq!(markers.len(), said.len(), "said twice");
        heard.len()
    }
}

both_engines! {
    fn changed_and_replayed_deliveries_do_no_harm(store: TestStore) {
        let rounds = if is_long_run() { 10_000 } else { 400 };
        let (began, seed) = (Instant::now(), 37);
        println!("seed {seed}");
        let url = store.url.clone();
        // Writes down what it was told, and does nothing of it.
        let office = GithubTest::with_agent(store, "echo $(tail -n 1) >> $HOME/runs; echo heard", "streaming = \"batch\"");
        let (alice, mallory) = (office.github.add_user("alice", "write"), office.github.add_outsider("mallory"));
        (1..=THREAD_COUNT).for_each(|thread| assert_eq!(office.github.open_issue("alice", "Much to do", ""), thread));
        office.github.without_webhooks();
        let mut story = DeliveryMutationTest {
            office, dice: SeededRandom(seed), alice, mallory, last: 0, taken: Vec::new(), asked: Vec::new(), bent: 0,
            sent: BTreeMap::new(),
        };
        story.asked_anew();
        story.send_huge_delivery();
        while story.sent.values().sum::<usize>() < rounds {
            story.send_random_delivery();
        }
        let told = began.elapsed();
        while !story.office.is_at_rest() {
            assert!(began.elapsed() < told + Duration::from_secs(300), "{:#?}", story.office.server.take_log_lines());
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = story.office.server.take_log_lines().join("\n");
        assert!(!log.contains("panicked"), "{log}");
        let runs = fs::read_to_string(story.office.grove.repo.home_dir().join("runs")).unwrap();
        let heard = story.check_effects(&url, &runs);
        println!(
            "{} deliveries in {} s, worked off after {} s: {} taken, of which {} ask something and {} were bent; \
             {heard} messages, each answered once; 0 taken wrongly, 0 panics",
            story.sent.values().sum::<usize>(), told.as_secs(), began.elapsed().as_secs(), story.taken.len(),
            story.asked.len(), story.bent
        );
        for ((kind, status), count) in &story.sent {
            println!("{count:6} {kind}: {status}");
        }
    }
}
