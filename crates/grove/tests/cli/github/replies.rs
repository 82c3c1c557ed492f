//! Who is answered, how often, and with what.

use std::time::{Duration, Instant};

use grove_testkit::github::{BOT_LOGIN, RequestFault};
use grove_testkit::{TestEngine, TestStore, on_sqlite, wait_for};

use super::{GithubTest, WEBHOOK_SECRET};

fn start_github_test() -> GithubTest {
    GithubTest::open(TestStore::new(TestEngine::Sqlite))
}

#[test]
fn outsiders_and_the_bot_itself_are_not_answered() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("mallory", "Run this", "@grove echo no");
    github.comment("mallory", issue, "@grove echo no");
    github.comment(BOT_LOGIN, issue, "@grove echo by hand");
    github.comment("alice", issue, "`@grove` is its name, me@grove.dev is not, nor @grove-dev");
    office.at_rest();
    // The bot's account may be a person's: what it writes by hand counts.
    assert_eq!(office.wait_for_replies(issue, 2)[1], "by hand");
    assert_eq!(github.reactions(issue), Vec::<String>::new());
    // The author of a comment counts, not the user who edits it.
    let said = github.comment("mallory", issue, "hello");
    github.edit_comment("alice", said, "@grove echo no");
    office.at_rest();
    assert_eq!(office.bot_replies(issue).len(), 2);
}

on_sqlite! {
    fn the_same_words_are_answered_once_and_other_words_again(store: TestStore) {
        let office = GithubTest::open(store);
        let github = &office.github;
        let issue = github.open_issue("alice", "Count", "");
        // Told by two hooks.
        github.add_webhook(&format!("{}/webhooks/github?second", office.server.address), WEBHOOK_SECRET);
        let comment = github.comment("alice", issue, "@grove echo one >> count; cat count");
        assert_eq!(office.wait_for_replies(issue, 2)[1], "one");
        for delivery in github.deliveries().iter().filter(|delivery| delivery.event == "issue_comment").take(2) {
            assert!((200..300).contains(&github.redeliver(&delivery.id)));
        }
        office.at_rest();
        assert_eq!(office.bot_replies(issue).len(), 2);
        github.edit_comment("alice", comment, "@grove echo two >> count; cat count");
        assert_eq!(office.wait_for_replies(issue, 3)[2], "one\ntwo");
    }
}

#[test]
fn a_limit_is_waited_for_and_the_order_is_kept() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Slowly", "");
    let comments = format!("/repos/octo/shop/issues/{issue}/comments");
    github.fail_next_of("POST", &comments, 1, RequestFault::TooMany { retry_after: Some(2) });
    let began = Instant::now();
    github.comment("alice", issue, "@grove echo one");
    github.comment("alice", issue, "@grove echo two");
    let said = office.wait_for_replies(issue, 3);
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(said[1..], ["one", "two"]);
}

#[test]
fn an_answer_whose_sending_was_cut_short_is_there_once() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Twice", "");
    let comments = format!("/repos/octo/shop/issues/{issue}/comments");
    for fault in [RequestFault::DropAfter, RequestFault::DropBefore, RequestFault::Status(502)] {
        let before = office.bot_replies(issue).len();
        github.fail_next_of("POST", &comments, 1, fault.clone());
        github.comment("alice", issue, "@grove echo said");
        let expected = if before == 0 { 2 } else { before + 1 };
        assert_eq!(office.wait_for_replies(issue, expected).last().unwrap(), "said", "{fault:?}");
    }
}

#[test]
fn what_others_write_is_not_taken_for_ours() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Slow", "");
    github.comment("alice", issue, "@grove echo first; sleep 6; seq -f 'line %g of it' 9000");
    wait_for(|| office.bot_replies(issue).len() == 2);
    // Mallory copies the hidden marker, as if it were the second part, and the first is sent twice.
    let hidden = github.comments(issue).pop().unwrap().body.split_once("<!-- grove ").unwrap().1.to_owned();
    let hidden = hidden.replace(" 1 -->", " 2 -->");
    let theirs = github.comment("mallory", issue, &format!("mine\n\n<!-- grove {hidden}"));
    github.fail_next_of("PATCH", "/issues/comments/", 1, RequestFault::Status(502));
    let said = office.wait_for_replies(issue, 4);
    assert!(said[1].starts_with("first\nline 1 of it") && said[3].ends_with("line 9000 of it"));
    assert_eq!(github.find_comment(theirs).versions.len(), 1);
}

#[test]
fn an_answer_mentions_no_user_and_tells_no_secret() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Loud", "");
    let token = github.create_token(BOT_LOGIN);
    github.comment("alice", issue, &format!("@grove echo '@everyone and @alice: {token}'"));
    let said = office.wait_for_replies(issue, 2).pop().unwrap();
    assert!(!said.contains("@everyone") && !said.contains("@alice") && said.contains("everyone"), "{said}");
    assert!(!said.contains(&token) && said.contains("***"), "{said}");
}

#[test]
fn a_long_answer_comes_in_parts() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Long", "");
    github.comment("alice", issue, "@grove echo '```text'; yes 'a line of it' | head -n 8000; echo '```'");
    let said = office.wait_for_replies(issue, 3);
    assert!(said[1..].iter().all(|part| part.starts_with("```text") && part.trim_end().ends_with("```")));
    assert!(said.iter().all(|part| part.chars().count() <= 65_000));
    let lines: usize = said[1..].iter().map(|part| part.matches("a line of it").count()).sum();
    assert_eq!(lines, 8000);
}

#[test]
fn an_answer_grows_in_one_comment() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Slow", "");
    github.comment("alice", issue, "@grove echo first; sleep 5; echo last");
    assert_eq!(office.wait_for_replies(issue, 2)[1], "first\nlast");
    let comment = github.comments(issue).pop().unwrap();
    let shown: Vec<&str> = comment.versions.iter().map(|body| body.split("\n\n<!--").next().unwrap()).collect();
    assert_eq!(shown, ["first\n\n…", "first\nlast"]);
}

#[test]
fn a_growing_answer_whose_first_showing_was_cut_short_is_there_once() {
    let office = GithubTest::with_settings(TestStore::new(TestEngine::Sqlite), "update_seconds = 1");
    let github = &office.github;
    let issue = github.open_issue("alice", "Slow", "");
    github.comment("alice", issue, "@grove echo zero");
    office.wait_for_replies(issue, 2);
    github.fail_next_of("POST", &format!("/repos/octo/shop/issues/{issue}/comments"), 1, RequestFault::DropAfter);
    github.comment("alice", issue, "@grove for n in $(seq 14); do echo $n; sleep 0.5; done");
    let said = office.wait_for_replies(issue, 3);
    let grown = github.comments(issue).pop().unwrap();
    assert!(said[2].ends_with("\n14") && grown.versions.len() > 2, "{grown:#?}");
}

#[test]
fn an_answer_that_grows_stands_below_what_was_said_before_it() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Slow", "");
    github.comment("alice", issue, "@grove echo zero");
    office.wait_for_replies(issue, 2);
    let comments = format!("/repos/octo/shop/issues/{issue}/comments");
    github.fail_next_of("POST", &comments, 1, RequestFault::TooMany { retry_after: Some(4) });
    github.comment("alice", issue, "@grove echo one");
    github.comment("alice", issue, "@grove for n in $(seq 14); do echo $n; sleep 0.5; done");
    let said = office.wait_for_replies(issue, 4);
    assert_eq!(said[2], "one", "{said:#?}");
    let grown = github.comments(issue).pop().unwrap();
    assert!(said[3].ends_with("\n14") && grown.versions.len() > 1, "{grown:#?}");
}

#[test]
fn answers_that_are_not_to_grow_come_whole() {
    let office = GithubTest::with_settings(TestStore::new(TestEngine::Sqlite), "streaming = \"batch\"");
    let issue = office.github.open_issue("alice", "Slow", "");
    office.github.comment("alice", issue, "@grove echo first; sleep 4; echo last");
    assert_eq!(office.wait_for_replies(issue, 2)[1], "first\nlast");
    assert_eq!(office.github.comments(issue).pop().unwrap().versions.len(), 1);
}

#[test]
fn bad_credentials_are_not_shown_again_and_again() {
    let office = start_github_test();
    let github = &office.github;
    let issue = github.open_issue("alice", "Locked out", "");
    office.at_rest();
    github.revoke_tokens();
    let asked = || github.received_requests().len();
    let before = asked();
    for n in 0..10 {
        github.comment("alice", issue, &format!("@grove echo {n}"));
    }
    std::thread::sleep(Duration::from_secs(5));
    assert!(asked() - before <= 4, "{} requests", asked() - before);
    assert_eq!(office.bot_replies(issue), Vec::<String>::new());
}

#[test]
fn what_github_will_not_tell_is_done_without() {
    let office = start_github_test();
    let github = &office.github;
    github.push("alice", "feature", "feature.txt", "1");
    let pull = github.open_pull("alice", "feature", "A feature", "");
    github.fail_next_of("GET", &format!("/repos/octo/shop/issues/{pull}/comments"), 1, RequestFault::Status(403));
    github.fail_next_of("GET", &format!("/repos/octo/shop/pulls/{pull}/files"), 1, RequestFault::Status(404));
    github.comment("alice", pull, "@grove echo done");
    assert_eq!(office.wait_for_replies(pull, 2)[1], "done");
}

#[test]
fn what_was_put_off_is_not_overtaken_after_a_restart() {
    let mut office = start_github_test();
    let issue = office.github.open_issue("alice", "Slowly", "");
    let permission = "/repos/octo/shop/collaborators/alice/permission";
    office.github.fail_next_of("GET", permission, 1, RequestFault::TooMany { retry_after: Some(4) });
    office.github.comment("alice", issue, "@grove echo one");
    wait_for(|| office.github.count_requests("GET", permission) > 0);
    office.server.terminate();
    office.restart_server();
    office.github.comment("alice", issue, "@grove echo two");
    assert_eq!(office.wait_for_replies(issue, 3)[1..], ["one", "two"]);
}
