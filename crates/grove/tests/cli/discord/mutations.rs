//! Events by the hundred: changed, replayed, out of order and made up. Every question of an allowed person has
//! one effect, no other text has any, and nothing ends the server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use grove_testkit::{SeededRandom, is_long_run, wait_for};
use serde_json::{Value, json};

use super::DiscordTest;

struct EventMutationTest {
    test: DiscordTest,
    dice: SeededRandom,
    last: u64,
    /// Numbers that must be answered once.
    asked: BTreeSet<u64>,
    /// Numbers that must not be answered.
    forbidden: BTreeSet<u64>,
    sent: Vec<Value>,
}

impl EventMutationTest {
    /// A message that was never sent to the REST API: the gateway alone tells of it.
    fn new_payload(&mut self, author: &str) -> (u64, Value) {
        self.last += 1;
        let (number, direct) = (self.last, self.test.discord.direct_channel("alice"));
        let id = self.test.discord.add_user(author);
        let payload = json!({
            "id": (u64::MAX / 4 + number).to_string(), "channel_id": direct.to_string(), "type": 0,
            "author": { "id": id.to_string(), "username": author, "bot": false, "public_flags": 0 },
            "content": format!("/help nothing-{number}"), "attachments": [], "mentions": [], "timestamp": "2024-01-01T00:00:00+00:00",
        });
        (number, payload)
    }

    fn send(&mut self, payload: &Value) {
        self.test.discord.dispatch("MESSAGE_CREATE", payload);
        self.sent.push(payload.clone());
    }

    fn send_random(&mut self, alice: u64) {
        let as_alice =
            |payload: &mut Value| payload["author"] = json!({ "id": alice.to_string(), "username": "alice" });
        let (number, mut payload) = self.new_payload("someone");
        match self.dice.next_below(10) {
            0..3 => {
                as_alice(&mut payload);
                self.asked.insert(number);
            }
            // Sent before.
            3..5 if !self.sent.is_empty() => {
                let at = self.dice.next_below(self.sent.len() as u64);
                payload = self.sent[usize::try_from(at).unwrap()].clone();
            }
            // The id of a message before, with other words.
            5 if !self.asked.is_empty() => {
                let known = *self.asked.iter().next().unwrap();
                as_alice(&mut payload);
                payload["id"] = json!((u64::MAX / 4 + known).to_string());
                self.forbidden.insert(number);
            }
            6 => {
                as_alice(&mut payload);
                let change = [
                    ("author", json!({ "id": alice.to_string(), "username": "alice", "bot": true })),
                    ("author", json!({ "id": "alice", "username": "alice" })),
                    ("author", json!({ "username": "alice" })),
                    ("author", json!(null)),
                    ("type", json!(7)),
                    ("webhook_id", json!("5")),
                    ("guild_id", json!("77")),
                    ("id", json!("first")),
                    ("channel_id", json!(null)),
                    ("content", json!(["/stop"])),
                ];
                let (field, value) = &change[usize::try_from(self.dice.next_below(10)).unwrap()];
                payload[*field] = value.clone();
                self.forbidden.insert(number);
            }
            // Alice's name, but not her account.
            7 => {
                payload["author"]["username"] = json!("Alice");
                self.forbidden.insert(number);
            }
            8 => {
                payload["author"]["id"] = json!(self.test.discord.bot_id().to_string());
                self.forbidden.insert(number);
            }
            _ => {
                self.forbidden.insert(number);
            }
        }
        self.send(&payload);
    }

    fn answered(&self) -> Vec<u64> {
        let texts = self.test.discord.bot_texts(self.test.discord.direct_channel("alice")).into_iter();
        texts.filter_map(|text| text.split_once("`/nothing-")?.1.split_once('`')?.0.parse().ok()).collect()
    }
}

#[test]
fn only_questions_of_allowed_people_have_an_effect() {
    let events = if is_long_run() { 3_000 } else { 300 };
    let test = DiscordTest::open();
    let direct = test.discord.direct_channel("alice");
    // From now on her name means her account.
    test.discord.say("alice", direct, "/help nothing-0");
    wait_for(|| !test.discord.bot_texts(direct).is_empty());
    let alice = test.discord.user_id("alice");
    let (asked, forbidden, sent) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut story = EventMutationTest { test, dice: SeededRandom(11), last: 0, asked, forbidden, sent };
    for _ in 0..events {
        story.send_random(alice);
    }
    let began = Instant::now();
    // The first answer is to the message before.
    while story.answered().len() <= story.asked.len() {
        let (answered, asked) = (story.answered().len(), story.asked.len());
        assert!(began.elapsed() < Duration::from_secs(240), "{answered} of {asked}: {}", story.test.status());
        std::thread::sleep(grove_testkit::poll_interval(began));
    }
    story.test.at_rest();
    let mut answered = story.answered();
    answered.retain(|number| *number != 0);
    assert!(answered.iter().all(|number| !story.forbidden.contains(number)), "{answered:?}");
    assert_eq!(answered.len(), story.asked.len());
    assert_eq!(answered.iter().copied().collect::<BTreeSet<_>>(), story.asked, "one effect each");
    println!("{events} events: {} asked, {} forbidden, one effect each", story.asked.len(), story.forbidden.len());
}
