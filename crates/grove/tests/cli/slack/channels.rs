//! What is chosen at the top of a channel holds for its later threads.

use grove_testkit::both_engines;

use super::{EventInput, SlackTest};

both_engines! {
    fn later_threads_inherit_codebase_and_agent_of_their_channel(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let path = test.grove.repo.temp_dir().join("site");
        test.grove.repo.git(&["clone", "--quiet", ".", &path.display().to_string()]);
        test.grove.grove(["codebase", "add", &path.display().to_string(), "--name", "site", "--json"]).assert_success();
        let slack = &test.slack;
        let thread = slack.say("alice", "C1", "@grove /codebase site");
        let chosen = "This conversation is about `site` from now on. New threads in this channel begin with it, too.";
        assert_eq!(test.wait_for_replies("C1", &thread, 1), [chosen]);
        let later = slack.say("alice", "C1", "@grove pwd");
        assert!(test.wait_for_replies("C1", &later, 2)[1].contains("/site-"));
        // In a thread, a choice holds for the thread alone.
        slack.reply("alice", "C1", &later, "!agent other");
        assert_eq!(test.wait_for_replies("C1", &later, 3)[2], "This conversation talks to `other` from now on.");
        let third = slack.say("alice", "C1", "@grove echo mine");
        assert_eq!(test.wait_for_replies("C1", &third, 2)[1].trim(), "mine");
        let agent = slack.say("alice", "C1", "@grove /agent other");
        assert!(test.wait_for_replies("C1", &agent, 1)[0].ends_with("New threads in this channel begin with it, too."));
        let fourth = slack.say("alice", "C1", "@grove echo mine");
        assert_eq!(test.wait_for_replies("C1", &fourth, 2)[1].trim(), "other");
        // Another channel asks.
        let elsewhere = slack.say("alice", "C2", "@grove pwd");
        test.wait_for_replies("C2", &elsewhere, 1);
        assert!(slack.bot_messages("C2", &elsewhere)[0].buttons().contains(&"site".to_owned()));
    }
}
