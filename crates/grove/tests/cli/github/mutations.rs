//! Deliveries by the thousand: changed, replayed and made up. Whatever is taken was signed, whatever
//! somebody asked has one effect, and nothing ends the server.

mod delivery;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use delivery::{Comment, Delivery, FORM, bent, nonsense};
use grove_model::Event;
use grove_store::{Manner, Options, Store};
use grove_testkit::github::BOT;
use grove_testkit::{Dice, both_engines};

use super::Office;

/// How many threads there are.
const THREADS: u64 = 6;

/// What must come of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expect {
    /// It is taken, and new.
    New,
    /// It is acknowledged, and nothing is kept of it.
    Known,
    Unsigned,
    Malformed,
    /// It is signed: taken if it makes sense.
    Either,
}

struct Story {
    office: Office,
    dice: Dice,
    alice: u64,
    mallory: u64,
    last: u64,
    /// What was taken, and the comment in it, if it was a proper one.
    taken: Vec<(Delivery, Option<Comment>)>,
    /// The words that somebody asked; each has one effect.
    asked: Vec<String>,
    /// How many deliveries were taken that were bent before they were signed: they may say anything.
    bent: usize,
    /// How many of each kind, and what was answered.
    sent: BTreeMap<(&'static str, u16), usize>,
}

impl Story {
    fn new_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn new_id(&mut self) -> String {
        format!("delivery-{}", self.new_number())
    }

    /// Somebody asks something that nobody asked before.
    fn question(&mut self) -> Comment {
        let (thread, number) = (self.dice.roll(THREADS) + 1, self.new_number());
        let words = format!("say {number} please");
        let body = format!("@grove {words}");
        Comment { thread, id: 1_000_000 + number, author: (self.alice, "alice"), body, version: 0 }
    }

    fn asks(&mut self, comment: &Comment) {
        self.asked.push(comment.body.trim_start_matches("@grove ").to_owned());
    }

    fn pick(&mut self, from: usize) -> usize {
        usize::try_from(self.dice.roll(from as u64)).expect("few")
    }

    /// A delivery of before.
    fn earlier(&mut self) -> Delivery {
        let at = self.pick(self.taken.len());
        self.taken[at].0.clone()
    }

    /// A comment of before.
    fn earlier_comment(&mut self) -> Comment {
        loop {
            let at = self.pick(self.taken.len());
            if let Some(comment) = &self.taken[at].1 {
                return comment.clone();
            }
        }
    }

    /// Sends it, and sees that what was expected comes.
    fn send(&mut self, kind: &'static str, delivery: Delivery, comment: Option<Comment>, expect: Expect) {
        let answer = delivery.send(&self.office.server);
        *self.sent.entry((kind, answer.status)).or_default() += 1;
        let fits = match (expect, answer.status) {
            (Expect::New, 202) => answer.json()["new"] == true,
            (Expect::Known, 202) => answer.json()["new"] == false,
            (Expect::Unsigned, status) => status == 401,
            (Expect::Malformed, status) => status == 400,
            (Expect::Either, status) => status == 202 || status == 400,
            _ => false,
        };
        assert!(fits, "{kind}: {expect:?}, {answer:?} for {delivery:?}");
        if answer.status == 202 {
            assert!(delivery.is_signed(), "{kind}: taken without being signed: {delivery:?}");
            if answer.json()["new"] == true {
                self.bent += usize::from(expect == Expect::Either);
                self.taken.push((delivery, comment));
            }
        }
    }

    /// One of everything that can happen, by chance.
    fn one(&mut self) {
        match self.dice.roll(100) {
            0..4 => self.asked_anew(),
            4 => {
                let (comment, id) = (self.question(), self.new_id());
                self.asks(&comment);
                let form = Delivery::form(&id, &comment.payload());
                self.send("asked by a form", form, Some(comment), Expect::New);
            }
            5 => {
                let (number, id) = (self.new_number(), self.new_id());
                let comment = self.earlier_comment();
                let comment = Comment { body: format!("@grove say {number} please"), version: number, ..comment };
                self.asks(&comment);
                self.send("other words", Delivery::new(&id, comment.payload()), Some(comment), Expect::New);
            }
            6 => self.told_by_four_at_once(),
            7..15 => {
                let delivery = self.earlier();
                self.send("the same again", delivery, None, Expect::Known);
            }
            15..23 => {
                let (mut delivery, id) = (self.earlier(), self.new_id());
                delivery.set("x-github-delivery", id);
                self.send("the same under another name", delivery, None, Expect::New);
            }
            23..27 => {
                // As no GitHub does: the name was taken, so this is what it was.
                let (comment, name) = (self.question(), self.earlier());
                let mut delivery = Delivery::new("", comment.payload());
                delivery.set("x-github-delivery", name.header("x-github-delivery").expect("a name"));
                self.send("another under the same name", delivery, None, Expect::Known);
            }
            27..33 => self.of_no_interest(),
            33..49 => {
                let mut delivery = self.earlier();
                let before = delivery.body.clone();
                bent(&mut self.dice, &mut delivery.body);
                let expect = if delivery.body == before { Expect::Known } else { Expect::Unsigned };
                self.send("changed on its way", delivery, None, expect);
            }
            49..61 => self.signed_badly(),
            61..67 => self.named_badly(),
            67..71 => self.of_another_type(),
            71..75 => {
                let (id, comment) = (self.new_id(), self.earlier_comment());
                let mut delivery = Delivery::new(&id, comment.payload());
                let (event, expect) = match self.dice.roll(4) {
                    0 => ("issues", Expect::New),
                    1 => ("star", Expect::Known),
                    2 => ("pull_request_review", Expect::Malformed),
                    _ => ("ping", Expect::Known),
                };
                delivery.set("x-github-event", event);
                self.send("as another event", delivery, None, expect);
            }
            75..95 => {
                let (comment, id) = (self.question(), self.new_id());
                let mut payload = comment.payload();
                (0..=self.dice.roll(3)).for_each(|_| bent(&mut self.dice, &mut payload));
                self.send("bent before it was signed", Delivery::new(&id, payload), None, Expect::Either);
            }
            _ => {
                let (comment, id) = (self.question(), self.new_id());
                let payload = nonsense(&mut self.dice, &comment);
                self.send("signed nonsense", Delivery::new(&id, payload), None, Expect::Either);
            }
        }
    }

    fn asked_anew(&mut self) {
        let (comment, id) = (self.question(), self.new_id());
        self.asks(&comment);
        self.send("asked", Delivery::new(&id, comment.payload()), Some(comment), Expect::New);
    }

    fn told_by_four_at_once(&mut self) {
        let comment = self.question();
        self.asks(&comment);
        let hooks: Vec<Delivery> = (0..4).map(|_| Delivery::new(&self.new_id(), comment.payload())).collect();
        let server = &self.office.server;
        std::thread::scope(|scope| {
            // Each of them twice.
            for delivery in hooks.iter().chain(&hooks) {
                scope.spawn(move || assert_eq!(delivery.send(server).status, 202));
            }
        });
        *self.sent.entry(("told by four hooks at once", 202)).or_default() += 8;
        self.taken.extend(hooks.into_iter().map(|delivery| (delivery, Some(comment.clone()))));
    }

    fn of_no_interest(&mut self) {
        let (mut comment, id) = (self.question(), self.new_id());
        let kind = match self.dice.roll(3) {
            0 => {
                comment.author = (self.mallory, "mallory");
                "of an outsider"
            }
            1 => {
                comment.body = comment.body.replace("@grove", "grove");
                "calling nobody"
            }
            _ => {
                let bot = self.office.github.user(BOT, "write");
                comment.author = (bot, BOT);
                comment.body += "\n\n<!-- grove 0199e4b0-7a3c-7c3e-9e63-1f0c7c0a9b11 1 -->";
                "of the bot itself"
            }
        };
        self.send(kind, Delivery::new(&id, comment.payload()), None, Expect::New);
    }

    fn signed_badly(&mut self) {
        const SIGNATURE: &str = "x-hub-signature-256";
        let (mut delivery, at) = (self.earlier(), self.pick(71));
        let good = delivery.header(SIGNATURE).expect("a signature");
        match self.dice.roll(7) {
            0 => delivery.remove(SIGNATURE),
            1 => delivery.set(SIGNATURE, &good[..at]),
            2 => delivery.sign("another secret"),
            3 => delivery.set(SIGNATURE, [&good[..], b"00"].concat()),
            4 => delivery.set(SIGNATURE, good.to_ascii_uppercase()),
            // The first one counts.
            5 => delivery.headers.insert(0, (SIGNATURE, b"sha256=00".to_vec())),
            _ => {
                let mut odd = good.clone();
                odd[at] = match self.dice.roll(3) {
                    0 => 0xe9,
                    _ => b'!' + u8::try_from(self.dice.roll(94)).expect("a byte"),
                };
                delivery.set(SIGNATURE, odd);
            }
        }
        let expect = if delivery.is_signed() { Expect::Known } else { Expect::Unsigned };
        self.send("signed badly", delivery, None, expect);
    }

    fn named_badly(&mut self) {
        let (mut delivery, number) = (self.earlier(), self.new_number());
        let name = if self.dice.one_in(2) { "x-github-event" } else { "x-github-delivery" };
        match self.dice.roll(4) {
            0 => delivery.remove(name),
            1 => delivery.set(name, ""),
            2 => delivery.set(name, format!("{number:0201}")),
            _ => delivery.set(name, b"caf\xe9"),
        }
        self.send("named badly", delivery, None, Expect::Malformed);
    }

    fn of_another_type(&mut self) {
        let (id, comment) = (self.new_id(), self.earlier_comment());
        let mut delivery = Delivery::new(&id, comment.payload());
        let expect = match self.dice.roll(7) {
            0 => {
                delivery.remove("content-type");
                Expect::New
            }
            1 => {
                delivery.set("content-type", "multipart/form-data; boundary=x");
                Expect::New
            }
            2 => {
                delivery.set("content-type", b"caf\xe9");
                Expect::New
            }
            3 => {
                // JSON that is said to be a form.
                delivery.set("content-type", FORM);
                Expect::Malformed
            }
            4 => {
                // A form that is said to be JSON.
                delivery = Delivery::form(&id, &comment.payload());
                delivery.set("content-type", "application/json");
                Expect::Malformed
            }
            5 => {
                delivery = Delivery::form(&id, &comment.payload());
                delivery.body.extend_from_slice(b"&payload=%7B%7D&x=%");
                delivery.sign(super::SECRET);
                Expect::New
            }
            _ => {
                delivery = Delivery::form(&id, &comment.payload());
                delivery.body.extend_from_slice(b"%z");
                delivery.sign(super::SECRET);
                Expect::Malformed
            }
        };
        self.send("of another type", delivery, None, expect);
    }

    /// Far over what GitHub sends.
    fn huge(&mut self) {
        let id = self.new_id();
        let mut delivery = Delivery::new(&id, Vec::new());
        delivery.body = vec![b' '; 25 * 1024 * 1024 + 1];
        let answer = delivery.send(&self.office.server);
        assert_eq!(answer.status, 413, "{answer:?}");
        *self.sent.entry(("huge", 413)).or_default() += 1;
    }

    /// Everything that was asked was heard once, was worked on once and was answered once. How many
    /// messages there are.
    fn check(&self, url: &str, runs: &str) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (heard, said) = runtime.block_on(async {
            let store = Store::open(url, Options::default()).await.unwrap();
            let (mut heard, mut said) = (Vec::new(), Vec::new());
            for conversation in store.recent_conversations("github").await.unwrap() {
                heard.extend(store.heard(conversation.id).await.unwrap());
                said.extend(store.said(conversation.id).await.unwrap());
            }
            store.close().await;
            (heard, said)
        });
        let mut words: BTreeMap<&str, usize> = BTreeMap::new();
        for message in &heard {
            let Event::Message { text, .. } = &message.event else { panic!("{message:?}") };
            *words.entry(text).or_default() += 1;
            let answers = said.iter().filter(|said| said.manner == Manner::Answer && said.message == Some(message.id));
            assert_eq!(answers.count(), 1, "{message:?}");
        }
        for asked in &self.asked {
            assert_eq!(words.get(asked.as_str()), Some(&1), "{asked}");
            assert_eq!(runs.lines().filter(|run| run == asked).count(), 1, "{asked}");
        }
        assert!(heard.len() <= self.asked.len() + self.bent, "{} of {}", heard.len(), self.asked.len() + self.bent);
        // On GitHub is what was said, and each of it once.
        let shown = (1..=THREADS).flat_map(|thread| self.office.github.comments(thread));
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
        let rounds = if std::env::var_os("GROVE_TEST_LONG").is_some() { 10_000 } else { 1_000 };
        let (began, seed) = (Instant::now(), 37);
        println!("seed {seed}");
        let url = store.url.clone();
        // Writes down what it was told, and does nothing of it.
        let office = Office::of(store, "echo $(tail -n 1) >> $HOME/runs; echo heard", "streaming = \"batch\"");
        let (alice, mallory) = (office.github.user("alice", "write"), office.github.outsider("mallory"));
        (1..=THREADS).for_each(|thread| assert_eq!(office.github.issue("alice", "Much to do", ""), thread));
        office.github.without_webhooks();
        let mut story = Story {
            office, dice: Dice(seed), alice, mallory, last: 0, taken: Vec::new(), asked: Vec::new(), bent: 0,
            sent: BTreeMap::new(),
        };
        story.asked_anew();
        story.huge();
        while story.sent.values().sum::<usize>() < rounds {
            story.one();
        }
        let told = began.elapsed();
        while !story.office.is_at_rest() {
            assert!(began.elapsed() < told + Duration::from_secs(300), "{:#?}", story.office.server.logged());
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = story.office.server.logged().join("\n");
        assert!(!log.contains("panicked"), "{log}");
        let runs = fs::read_to_string(story.office.grove.repo.home().join("runs")).unwrap();
        let heard = story.check(&url, &runs);
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
