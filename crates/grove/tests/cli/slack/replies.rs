//! How answers look: split, escaped, as a file, growing; and what happens when Slack asks us to wait.

use std::time::{Duration, Instant};

use grove_testkit::on_sqlite;
use grove_testkit::slack::SlackFault;

use super::{EventInput, SlackTest};

on_sqlite! {
    fn a_long_answer_is_split_and_escaped(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let slack = &test.slack;
        let thread = slack.say("alice", "C1", "@grove printf %012001d 0 | tr 0 x");
        let replies = test.wait_for_replies("C1", &thread, 3);
        assert_eq!((replies[1].len(), replies[2].trim_end().len()), (12_000, 1));
        slack.reply("alice", "C1", &thread, "echo '```rust'; yes 'let x: Vec<u8> = a & b; // <!channel>' | head -n 250; echo '```'");
        let replies = test.wait_for_replies("C1", &thread, 5);
        for part in &replies[3..] {
            assert!(part.starts_with("```rust\nlet x: Vec&lt;u8&gt; = a &amp; b; // &lt;!channel&gt;\n"), "{part}");
            assert!(part.trim_end().ends_with("```") && part.chars().count() <= 12_000);
        }
        assert!(slack.requests("chat.postMessage").iter().all(|request| request.error.is_empty() && request.body["unfurl_links"] == false));
    }

    fn a_very_long_answer_is_a_file(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let slack = &test.slack;
        let thread = slack.say("alice", "C1", "@grove seq 1 20000");
        let replies = test.wait_for_replies("C1", &thread, 3);
        assert!(replies[1].starts_with("1\n2\n") && replies[1].ends_with("_The whole answer is in the file below._"));
        let file = slack.bot_messages("C1", &thread)[2].files[0]["id"].as_str().unwrap().to_owned();
        let content = slack.file_content(&file);
        assert!(content.lines().count() == 20_000 && content.trim_end().ends_with("\n20000"));
        // Without the right to upload, it is messages.
        slack.forbid_methods(&["files.getUploadURLExternal"]);
        slack.reply("alice", "C1", &thread, "seq 1 12000");
        let replies = test.wait_for_replies("C1", &thread, 9);
        assert!(replies[8].trim_end().ends_with("\n12000"), "{:?}", replies.iter().map(String::len).collect::<Vec<_>>());
    }

    fn a_rate_limit_is_respected_and_keeps_the_order(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let slack = &test.slack;
        let thread = slack.say("alice", "C1", "@grove echo first");
        test.wait_for_replies("C1", &thread, 2);
        slack.fail_next("chat.postMessage", 1, SlackFault::Limited { retry_after: 2 });
        let began = Instant::now();
        for number in 1..=5 {
            slack.reply("alice", "C1", &thread, &format!("echo answer {number}"));
        }
        let replies = test.wait_for_replies("C1", &thread, 7);
        assert!(began.elapsed() >= Duration::from_secs(2));
        let expected: Vec<String> = (1..=5).map(|number| format!("answer {number}")).collect();
        assert_eq!(replies[2..].iter().map(|reply| reply.trim()).collect::<Vec<_>>(), expected);
        let limited = slack.requests("chat.postMessage").iter().filter(|request| request.error == "status 429").count();
        assert_eq!(limited, 1, "no request before the time is over");
    }

    fn an_answer_grows(store: TestStore) {
        let test = SlackTest::with_settings(store, EventInput::Sockets, "tail -n 1 | sh", "update_seconds = 1");
        let slack = &test.slack;
        let gate = test.grove.repo.temp_dir().join("gate");
        let words = format!("@grove echo begin; until [ -e {} ]; do sleep 0.02; done; echo end", gate.display());
        let thread = slack.say("alice", "C1", &words);
        grove_testkit::wait_for(|| test.bot_texts("C1", &thread).iter().any(|text| text.starts_with("begin\n\n…")));
        assert_eq!(slack.reactions("C1", &thread), ["eyes"]);
        std::fs::write(gate, "").unwrap();
        let replies = test.wait_for_replies("C1", &thread, 2);
        grove_testkit::wait_for(|| test.bot_texts("C1", &thread)[1].trim() == "begin\nend");
        assert_eq!(replies.len(), 2);
        grove_testkit::wait_for(|| slack.reactions("C1", &thread) == ["white_check_mark"]);
        assert!(!slack.requests("chat.update").is_empty());
    }

    fn a_lost_response_does_not_double_an_answer(store: TestStore) {
        let test = SlackTest::open(store, EventInput::Sockets);
        let slack = &test.slack;
        let thread = slack.say("alice", "C1", "@grove echo first");
        test.wait_for_replies("C1", &thread, 2);
        slack.fail_next("chat.postMessage", 1, SlackFault::DropAfter);
        slack.reply("alice", "C1", &thread, "echo second");
        slack.reply("alice", "C1", &thread, "echo third");
        let replies = test.wait_for_replies("C1", &thread, 4);
        assert_eq!((replies[2].trim(), replies[3].trim()), ("second", "third"));
        assert!(!slack.requests("conversations.replies").is_empty());
    }
}
