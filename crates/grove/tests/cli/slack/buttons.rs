//! Questions with buttons.

use grove_testkit::on_sqlite;

use super::{EventInput, SlackTest};

impl SlackTest {
    /// Registers another repository.
    fn add_second_codebase(&self) {
        let path = self.grove.repo.temp_dir().join("site");
        self.grove.repo.git(&["clone", "--quiet", ".", &path.display().to_string()]);
        self.grove.grove(["codebase", "add", &path.display().to_string(), "--name", "site", "--json"]).assert_success();
    }

    /// Presses a button of the last message of a thread.
    #[track_caller]
    fn press_last(&self, user: &str, thread: &str, label: &str) -> String {
        let question = self.slack.bot_messages("C1", thread).pop().unwrap();
        self.slack.press(user, "C1", &question.ts, label);
        question.ts
    }
}

fn which_repository(test: &SlackTest) {
    test.add_second_codebase();
    let slack = &test.slack;
    let thread = slack.say("alice", "C1", "@grove pwd");
    test.wait_for_replies("C1", &thread, 1);
    let question = slack.bot_messages("C1", &thread).remove(0);
    assert!(question.buttons().contains(&"site".to_owned()), "{question:?}");
    assert_eq!(slack.reactions("C1", &thread), ["white_check_mark"], "the message is kept");
    // An outsider's press is nothing; of two presses the first counts.
    slack.press("mallory", "C1", &question.ts, "site");
    test.at_rest();
    assert_eq!(slack.bot_messages("C1", &thread).len(), 1);
    slack.press("bob", "C1", &question.ts, "site");
    let replies = test.wait_for_replies("C1", &thread, 4);
    assert!(replies[3].contains("/site-"), "{replies:#?}");
    let question = slack.bot_messages("C1", &thread).remove(0);
    assert!(
        question.buttons().is_empty() && question.blocks.to_string().contains("<@UBOB> chose *site*"),
        "{question:?}"
    );
}

on_sqlite! {
    fn which_repository_is_asked_with_buttons(store: TestStore) {
        which_repository(&SlackTest::open(store, EventInput::Sockets));
    }

    fn a_button_is_pressed_through_the_webhook_too(store: TestStore) {
        which_repository(&SlackTest::open(store, EventInput::Webhook));
    }

    fn a_refused_removal_offers_remove_anyway(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let thread = test.slack.say("alice", "C1", "@grove echo hi > new.txt");
        test.wait_for_replies("C1", &thread, 2);
        test.slack.reply("alice", "C1", &thread, "!worktree remove");
        let refused = test.wait_for_replies("C1", &thread, 3).remove(2);
        assert!(refused.contains("untracked"), "{refused}");
        let question = test.slack.bot_messages("C1", &thread).remove(2);
        assert_eq!(question.buttons().len(), 1, "{question:?}");
        test.press_last("alice", &thread, &question.buttons()[0]);
        test.wait_for_replies("C1", &thread, 4);
        assert!(test.list_environments().is_empty());
        // The same button again: the message shows none any more, and an old client's press is nothing.
        assert!(test.slack.bot_messages("C1", &thread)[2].buttons().is_empty());
    }

    fn an_interrupted_run_offers_retry(store: TestStore) {
        let mut test = SlackTest::open(store, EventInput::Sockets);
        let gate = test.grove.repo.temp_dir().join("gate");
        let words = format!("@grove [ -e {0} ] || {{ touch {0}; sleep 60; }}; echo done", gate.display());
        let thread = test.slack.say("alice", "C1", &words);
        grove_testkit::wait_for(|| gate.exists());
        test.server.kill();
        test.restart_server();
        let replies = test.wait_for_replies("C1", &thread, 2);
        assert!(replies[1].contains("was interrupted by a restart"), "{replies:#?}");
        assert_eq!(test.slack.reactions("C1", &thread), ["x"]);
        let labels = test.slack.bot_messages("C1", &thread)[1].buttons();
        test.press_last("alice", &thread, &labels[0]);
        assert_eq!(test.wait_for_replies("C1", &thread, 3)[2].trim(), "done");
    }
}
