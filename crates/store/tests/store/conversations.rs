//! Conversations: their titles, and messages that are kept until a question is answered.

use grove_model::{Choice, ChoiceOption, IncomingEvent, IncomingPayload, MessageStatus, Moment};
use grove_store::{AcceptedMessage, Conversation, ConversationRef, InboxMessage, InboxOutcome, Store, TurnKey};
use grove_testkit::both_engines;
use jiff::SignedDuration;

use crate::{new_codebase, open_store, test_owner};

async fn accept_text(store: &Store, text: &str) -> AcceptedMessage {
    accept_titled(store, text, None).await
}

async fn accept_titled(store: &Store, text: &str, title: Option<&str>) -> AcceptedMessage {
    let event = IncomingPayload::Message { text: text.to_owned(), context: None, hints: Box::default() };
    let [via, platform, conversation] = ["test", "test", "c"].map(str::to_owned);
    let incoming = IncomingEvent { via, platform, conversation, parent: None, user: None, delivery: None, event };
    store.accept_about(&incoming, false, None, title).await.unwrap()
}

/// Takes the turn of the conversation and begins its next message.
async fn begin_turn(store: &Store) -> (TurnKey, InboxMessage) {
    let waiting = store.waiting_conversations().await.unwrap().remove(0);
    let until = Moment::now().add_duration(SignedDuration::from_secs(60));
    let key = store.take_turn(&waiting, &test_owner(1), until).await.unwrap().unwrap();
    let message = store.begin_message(&key).await.unwrap().unwrap();
    (key, message)
}

/// Accepts the first message of a thread, and returns its conversation.
async fn start_thread(store: &Store, thread: &str, channel: &str) -> Conversation {
    let event = IncomingPayload::Message { text: "hi".to_owned(), context: None, hints: Box::default() };
    let [via, platform, conversation, channel] = ["slack", "slack", thread, channel].map(str::to_owned);
    let incoming =
        IncomingEvent { via, platform, conversation, parent: Some(channel), user: None, delivery: None, event };
    let accepted = store.accept_about(&incoming, false, None, None).await.unwrap();
    store.find_conversation(accepted.conversation).await.unwrap().unwrap()
}

both_engines! {
    async fn new_threads_begin_with_the_choices_of_their_channel(test: TestStore) {
        let store = open_store(&test).await;
        let app = store.register_codebase(&new_codebase("acme", "app", "/app")).await.unwrap();
        let site = store.register_codebase(&new_codebase("acme", "site", "/site")).await.unwrap();
        let first = start_thread(&store, "C1:1.1", "C1").await;
        assert_eq!((first.codebase, first.agent, first.parent.as_deref()), (None, None, Some("C1")));
        let channel = ConversationRef { platform: "slack".to_owned(), id: "C1".to_owned() };
        for codebase in [&app, &site] {
            store.choose_channel_codebase(&channel, codebase.id).await.unwrap();
        }
        store.choose_channel_agent(&channel, "codex").await.unwrap();
        let later = start_thread(&store, "C1:2.2", "C1").await;
        assert_eq!((later.codebase, later.agent.as_deref()), (Some(site.id), Some("codex")));
        let known = start_thread(&store, "C1:1.1", "C1").await;
        assert_eq!((known.codebase, known.agent), (None, None), "a thread keeps its own choices");
        assert_eq!(start_thread(&store, "C2:1.1", "C2").await.codebase, None);
    }

    async fn the_first_title_stays(test: TestStore) {
        let store = open_store(&test).await;
        let mut titles = Vec::new();
        for title in [None, Some("Fix the login"), Some("Something else"), None] {
            let accepted = accept_titled(&store, "hi", title).await;
            titles.push(store.find_conversation(accepted.conversation).await.unwrap().unwrap().title);
        }
        let first = Some("Fix the login".to_owned());
        assert_eq!(titles, [None, first.clone(), first.clone(), first]);
    }

    async fn a_kept_message_and_its_question_survive_a_restart(test: TestStore) {
        let store = open_store(&test).await;
        let said = accept_text(&store, "fix the login").await;
        let choice = Choice { question: "Which?".to_owned(), options: ["app", "site"].map(|name| ChoiceOption::new(name, name)).to_vec() };
        let (key, message) = begin_turn(&store).await;
        store.answer_message(&key, message.id, Some("Which? app, site."), Some(&choice), InboxOutcome::Asked).await.unwrap();
        store.release_turn(&key).await.unwrap();
        store.close().await;

        let store = open_store(&test).await;
        assert!(!store.is_busy(said.conversation).await.unwrap(), "nothing runs while a person thinks");
        let kept = store.kept_messages(said.conversation, i64::MAX).await.unwrap();
        assert_eq!(kept.iter().map(|kept| (kept.id, kept.status)).collect::<Vec<_>>(), [(said.message, MessageStatus::Asked)]);
        assert_eq!(store.said_to(&kept[0]).await.unwrap()[0].choice, Some(choice));
        assert_eq!(store.kept_messages(said.conversation, kept[0].seq).await.unwrap().len(), 0, "only earlier ones");

        // The run of the choice ends well: the message has been run.
        accept_text(&store, "app").await;
        let (key, chosen) = begin_turn(&store).await;
        store.agent_starts(&key, chosen.id).await.unwrap();
        assert_eq!(store.kept_messages(said.conversation, chosen.seq).await.unwrap().len(), 1);
        store.mark_retried(&key, said.message).await.unwrap();
        assert_eq!(store.kept_messages(said.conversation, chosen.seq).await.unwrap().len(), 0);
        assert_eq!(store.find_message(said.message).await.unwrap().unwrap().status, MessageStatus::Done);
    }

    async fn a_kept_message_is_past_once_an_agent_has_run_since(test: TestStore) {
        let store = open_store(&test).await;
        let said = accept_text(&store, "fix the login").await;
        let (key, message) = begin_turn(&store).await;
        store.answer_message(&key, message.id, Some("Which?"), None, InboxOutcome::Asked).await.unwrap();
        store.release_turn(&key).await.unwrap();
        accept_text(&store, "something else").await;
        let (key, other) = begin_turn(&store).await;
        store.agent_starts(&key, other.id).await.unwrap();
        assert_eq!(store.kept_messages(said.conversation, other.seq).await.unwrap().len(), 1, "its own run does not count");
        assert_eq!(store.kept_messages(said.conversation, other.seq + 1).await.unwrap().len(), 0);
    }
}
