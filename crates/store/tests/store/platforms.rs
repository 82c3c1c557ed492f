//! What platforms told us, and what they are told.

use grove_model::{EventOutcome, IncomingEvent, IncomingPayload, MessageStatus, Moment};
use grove_store::{AcceptedMessage, InboxOutcome, NewEvent, Store};
use grove_testkit::both_engines;
use jiff::SignedDuration;

use crate::{open_store, test_owner};

fn new_event(delivery: &str) -> NewEvent {
    let text = |text: &str| text.to_owned();
    NewEvent {
        platform: text("github"),
        delivery: text(delivery),
        kind: text("ping"),
        body: format!("{{\"{delivery}\":1}}"),
    }
}

/// Stores a message of a user.
async fn accept_message(store: &Store, via: &str, conversation: &str) -> AcceptedMessage {
    let event = IncomingPayload::Message { text: "hi".to_owned(), context: None, hints: Box::default() };
    let (platform, conversation) = ("github".to_owned(), conversation.to_owned());
    let incoming =
        IncomingEvent { via: via.to_owned(), platform, conversation, parent: None, user: None, delivery: None, event };
    store.accept_about(&incoming, false, None, None).await.unwrap()
}

/// And is answered, with a word on the way.
async fn answer_message(store: &Store, said: AcceptedMessage) {
    let waiting = store.waiting_conversations().await.unwrap();
    let waiting = waiting.iter().find(|waiting| waiting.conversation == said.conversation).unwrap();
    let until = Moment::now().add_duration(SignedDuration::from_secs(60));
    let key = store.take_turn(waiting, &test_owner(1), until).await.unwrap().unwrap();
    store.begin_message(&key).await.unwrap().unwrap();
    store.post_notices(&key, said.message, &["on the way".to_owned()]).await.unwrap();
    store.answer_message(&key, said.message, Some("the answer"), None, InboxOutcome::Done).await.unwrap();
    store.release_turn(&key).await.unwrap();
}

async fn unsent_texts(store: &Store) -> Vec<(String, String)> {
    let unsent = store.next_unsent("github", 10).await.unwrap();
    unsent.into_iter().map(|unsent| (unsent.conversation, unsent.text)).collect()
}

fn text_pair(conversation: &str, text: &str) -> (String, String) {
    (conversation.to_owned(), text.to_owned())
}

both_engines! {
    async fn a_delivery_is_kept_once_and_worked_on_once(store: TestStore) {
        let store = open_store(&store).await;
        assert_eq!(store.keep_events(&[new_event("a"), new_event("b"), new_event("a")]).await.unwrap(), [true, true, false]);
        assert_eq!(store.keep_events(&[new_event("b"), new_event("c")]).await.unwrap(), [false, true]);
        let waiting = store.waiting_events("github", None, 10).await.unwrap();
        let names: Vec<&str> = waiting.iter().map(|event| event.delivery.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(store.waiting_events("slack", None, 10).await.unwrap().is_empty());
        let until = Moment::now();
        assert!(store.take_event(&waiting[0], &test_owner(1), until).await.unwrap());
        assert!(!store.take_event(&waiting[0], &test_owner(1), until).await.unwrap(), "somebody was faster");
        store.finish_event(waiting[0].id, EventOutcome::Done, "ignored").await.unwrap();
        store.event_later(waiting[1].id, until.add_duration(SignedDuration::from_hours(1)), "busy").await.unwrap();
        let waiting = store.waiting_events("github", None, 10).await.unwrap();
        let waiting: Vec<(&str, bool)> =
            waiting.iter().map(|event| (event.delivery.as_str(), event.not_before.is_some())).collect();
        assert_eq!(waiting, [("b", true), ("c", false)]);
        // What is worked off is still known.
        assert_eq!(store.keep_events(&[new_event("a")]).await.unwrap(), [false]);
        assert_eq!(store.forget_events(Moment::now().add_duration(SignedDuration::from_hours(1))).await.unwrap(), 1);
    }

    async fn answers_are_sent_in_the_order_of_their_conversation(store: TestStore) {
        let store = open_store(&store).await;
        for conversation in ["a#1", "a#2"] {
            let said = accept_message(&store, "github", conversation).await;
            answer_message(&store, said).await;
        }
        // The replies of a local conversation are read on this machine, so they are not sent.
        let local = accept_message(&store, "test", "a#3").await;
        answer_message(&store, local).await;
        assert_eq!(unsent_texts(&store).await, [text_pair("a#1", "on the way"), text_pair("a#2", "on the way")]);
        let first = store.next_unsent("github", 10).await.unwrap().remove(0);
        let until = Moment::now().add_duration(SignedDuration::from_secs(60));
        assert!(store.take_unsent(&first, &test_owner(1), until).await.unwrap());
        assert!(!store.take_unsent(&first, &test_owner(1), until).await.unwrap(), "somebody was faster");
        // A conversation that never failed comes first.
        let waiting = store.next_unsent("github", 10).await.unwrap();
        assert_eq!((waiting[1].id, waiting[1].sender.clone()), (first.id, Some(test_owner(1))));
        store.send_later(first.id, until, "429").await.unwrap();
        assert_eq!(unsent_texts(&store).await, [text_pair("a#2", "on the way")], "what is behind it waits too");
        store.mark_sent(first.id, "[1]").await.unwrap();
        assert_eq!(unsent_texts(&store).await, [text_pair("a#1", "the answer"), text_pair("a#2", "on the way")]);
        let second = store.next_unsent("github", 10).await.unwrap().remove(1);
        store.send_never(second.id, "the issue is gone").await.unwrap();
        assert_eq!(unsent_texts(&store).await, [text_pair("a#1", "the answer"), text_pair("a#2", "the answer")]);
    }

    async fn a_growing_answer_is_known_by_its_name(store: TestStore) {
        let store = open_store(&store).await;
        let said = accept_message(&store, "github", "a#1").await;
        store.keep_draft(said.message, "[7]").await.unwrap();
        answer_message(&store, said).await;
        let notice = store.next_unsent("github", 10).await.unwrap().remove(0);
        store.mark_sent(notice.id, "[6]").await.unwrap();
        let answer = store.next_unsent("github", 10).await.unwrap().remove(0);
        assert_eq!((answer.draft.as_deref(), answer.message, answer.had_agent), (Some("[7]"), Some(said.message), false));
        assert_eq!(store.find_mark("github", "since").await.unwrap(), None);
        for value in ["1", "2"] {
            store.set_mark("github", "since", value).await.unwrap();
        }
        assert_eq!(store.find_mark("github", "since").await.unwrap().as_deref(), Some("2"));
    }

    async fn a_message_has_a_known_status_or_is_an_error(test: TestStore) {
        let store = open_store(&test).await;
        let said = accept_message(&store, "github", "a#1").await;
        let status = async || store.find_message(said.message).await.map(|message| message.unwrap().status);
        assert_eq!(status().await.unwrap(), MessageStatus::Waiting);
        answer_message(&store, said).await;
        assert_eq!(status().await.unwrap(), MessageStatus::Done);
        let pool = sqlx::AnyPool::connect(&test.url).await.unwrap();
        sqlx::query("UPDATE grove_inbox SET status = 'parked'").execute(&pool).await.unwrap();
        let error = status().await.unwrap_err().to_string();
        assert!(error.contains(&said.message.to_string()), "{error}");
        assert!(error.contains("`parked` is not a known status of a message"), "{error}");
        pool.close().await;
    }
}
