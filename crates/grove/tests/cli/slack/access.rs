//! Who may direct the agent, and what happens with bad credentials.

use grove_testkit::on_sqlite;
use grove_testkit::slack::SlackFault;

use super::{EventInput, SlackTest};

on_sqlite! {
    fn outsiders_and_bots_are_not_heard(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let slack = &test.slack;
        let outside = slack.say("mallory", "C1", "@grove echo hi");
        let direct = slack.say_directly("mallory", "echo hi");
        let other_bot = slack.write("alice", "C1", None, "@grove echo hi", &serde_json::json!({ "bot_id": "B9" }));
        let edited = slack.write("alice", "C1", None, "@grove echo hi", &serde_json::json!({ "subtype": "message_changed" }));
        // A thread of alice's; mallory speaks there, too.
        let thread = slack.say("alice", "C1", "@grove echo hi");
        test.wait_for_replies("C1", &thread, 2);
        slack.reply("mallory", "C1", &thread, "@grove echo evil");
        slack.reply("mallory", "C1", &thread, "echo evil");
        test.at_rest();
        assert_eq!(slack.all_bot_messages().len(), 2, "{:#?}", slack.all_bot_messages());
        for (channel, ts) in [("C1", outside), ("DMALLORY", direct), ("C1", other_bot), ("C1", edited)] {
            assert_eq!(slack.reactions(channel, &ts), [""; 0]);
        }
        assert_eq!(test.list_environments().len(), 1);
        // The list can be edited while the server runs.
        let config = test.grove.grove_home().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("\"UBOB\"", "\"UMALLORY\"")).unwrap();
        grove_testkit::wait_for(|| {
            let thread = slack.say("mallory", "C1", "@grove !status");
            test.at_rest();
            !slack.bot_messages("C1", &thread).is_empty()
        });
    }

    fn bad_credentials_back_off_and_are_shown(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        grove_testkit::wait_for(|| test.adapter_state().0 == "connected" && test.slack.socket_count() == 2);
        test.slack.set_tokens_valid(true, false);
        test.slack.drop_socket();
        test.slack.drop_socket();
        // First the sockets are gone, then Slack refuses new ones.
        let refused = ("failing".to_owned(), "Slack does not take our credentials: invalid_auth".to_owned());
        grove_testkit::wait_for(|| test.adapter_state() == refused);
        let tried = test.slack.requests("apps.connections.open").len();
        assert!(tried <= 6, "no hammering: {tried}");
        // The other adapters go on.
        assert_eq!(test.server.ask("c", "echo fine").pop().unwrap().trim(), "fine");
        test.slack.set_tokens_valid(true, true);
        grove_testkit::wait_for(|| test.adapter_state().0 == "connected");
        let thread = test.slack.say("alice", "C1", "@grove echo again");
        assert_eq!(test.wait_for_replies("C1", &thread, 2)[1].trim(), "again");
    }

    fn an_unknown_account_makes_events_wait(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Webhook);
        grove_testkit::wait_for(|| test.adapter_state().0 == "connected");
        let mut test = test;
        test.server.terminate();
        test.slack.fail_next("auth.test", 1, SlackFault::Error("invalid_auth"));
        test.restart_server();
        test.slack.use_webhook(&format!("{}/webhooks/slack", test.server.address));
        grove_testkit::wait_for(|| test.adapter_state().0 == "failing");
        let thread = test.slack.say("alice", "C1", "@grove echo later");
        assert_eq!(test.wait_for_replies("C1", &thread, 2)[1].trim(), "later");
        assert_eq!(test.adapter_state().1, "as grove in Acme, Events API");
    }
}
