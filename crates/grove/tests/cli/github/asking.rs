//! GitHub is asked what happened: instead of webhooks, and for what they did not bring.

use grove_testkit::github::RequestFault;
use grove_testkit::{TestEngine, TestStore, on_sqlite};
use serde_json::json;

use super::{GithubTest, LAST_LINE_AGENT, POLL_SETTINGS, WEBHOOK_SECRET};

on_sqlite! {
    fn what_was_missed_is_worked_off_once(store: TestStore) {
        let mut office = GithubTest::with_settings(store, "repos = [\"octo/shop\"]");
        let github = &office.github;
        let (asked, closed) = (github.open_issue("alice", "One", ""), github.open_issue("alice", "Two", "@grove echo two"));
        github.comment("alice", asked, "@grove echo before");
        office.wait_for_replies(asked, 2);
        office.wait_for_replies(closed, 2);
        github.push("alice", "feature", "feature.txt", "1");
        let pull = github.open_pull("alice", "feature", "A feature", "Please.");
        github.comment("alice", pull, "@grove echo looked");
        office.wait_for_replies(pull, 2);

        // The server is down while many events happen.
        office.server.terminate();
        let github = &office.github;
        let edited = github.comment("alice", asked, "hello");
        github.edit_comment("alice", edited, "@grove echo edited");
        github.comment("mallory", asked, "@grove echo no");
        github.comment("alice", asked, "@grove echo missed");
        let fresh = github.open_issue("alice", "Three", "@grove echo three");
        github.close("mallory", closed);
        github.line_comment("alice", pull, "feature.txt", (1, 1), "@grove echo lines");
        github.review("alice", pull, "@grove echo review");
        let head = github.push("alice", "feature", "feature.txt", "2");

        office.restart_server();
        let github = &office.github;
        let told = format!(
            "Pull request #{pull} has new commits, up to {}, that the worktree `feature` has not; `/worktree sync` brings them in.",
            &head[..7]
        );
        assert_eq!(office.wait_for_replies(asked, 4)[2..], ["edited", "missed"]);
        assert_eq!(office.wait_for_replies(fresh, 2)[1], "three");
        assert_eq!(office.wait_for_replies(pull, 5)[2..], ["lines", "review", &told]);
        let live = office.list_environments(false);
        assert!(!live.iter().any(|environment| environment["workflow_id"] == json!(closed.to_string())), "{live:#?}");

        // GitHub redelivers every event, and alice asks again.
        for delivery in github.deliveries() {
            github.redeliver(&delivery.id);
        }
        office.server.terminate();
        office.restart_server();
        office.github.comment("alice", asked, "@grove echo after");
        assert_eq!(office.wait_for_replies(asked, 5)[4], "after");
        for (number, many) in [(fresh, 2), (pull, 5), (closed, 2)] {
            assert_eq!(office.bot_replies(number).len(), many, "{:#?}", office.bot_replies(number));
        }
    }
}

on_sqlite! {
    fn a_close_ends_what_came_before_it_and_nothing_else(store: TestStore) {
        let mut office = GithubTest::with_settings(store, "repos = [\"octo/shop\"]");
        let live = |office: &GithubTest| {
            let live = office.list_environments(false);
            live.iter().map(|environment| environment["branch"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (lost, over) = (office.github.open_issue("alice", "One", ""), office.github.open_issue("alice", "Two", ""));
        // The event of the close is lost; then alice asks something in the closed issue.
        office.github.comment("alice", lost, "@grove echo one");
        office.wait_for_replies(lost, 2);
        let hook = format!("{}/webhooks/github", office.server.address);
        office.github.without_webhooks();
        office.github.close("alice", lost);
        office.github.add_webhook(&hook, WEBHOOK_SECRET);
        office.github.comment("alice", lost, "@grove echo two");
        office.wait_for_replies(lost, 3);
        office.server.terminate();
        // Alice asks something, and then closes the issue.
        office.github.comment("alice", over, "@grove echo three");
        office.github.close("alice", over);
        office.restart_server();
        assert_eq!(office.wait_for_replies(over, 2)[1], "three");
        office.at_rest();
        assert_eq!(live(&office), [format!("issue-{lost}")]);
    }
}

#[test]
fn who_asks_in_a_closed_issue_is_not_cut_short() {
    let office = GithubTest::with_polling(TestStore::new(TestEngine::Sqlite));
    let issue = office.github.open_issue("alice", "One", "");
    office.github.close("alice", issue);
    office.at_rest();
    office.github.comment("alice", issue, "@grove echo hello");
    office.wait_for_replies(issue, 2);
    // Our own words change it, too.
    office.at_rest();
    office.at_rest();
    assert_eq!(office.list_environments(false).len(), 1);
    assert_eq!(office.bot_replies(issue).len(), 2);
}

#[test]
fn credentials_that_hold_no_more_are_said() {
    let office = GithubTest::with_polling(TestStore::new(TestEngine::Sqlite));
    office.asked_again();
    let state = || office.grove.grove(["status", "--json"]).assert_success().json()["adapters"]["github"].clone();
    assert_eq!(state()["state"], "connected");
    office.github.fail_next_of("GET", "/repos/Octo/Shop/issues", 2, RequestFault::Status(401));
    grove_testkit::wait_for(|| state()["state"] == "failing");
    assert!(state()["detail"].as_str().unwrap().starts_with("GitHub does not take our credentials"), "{}", state());
    grove_testkit::wait_for(|| state()["state"] == "connected");
}

#[test]
fn what_did_not_change_is_not_sent_again() {
    let office = GithubTest::with_polling(TestStore::new(TestEngine::Sqlite));
    let github = &office.github;
    let issue = github.open_issue("alice", "One", "@grove echo hello");
    office.wait_for_replies(issue, 2);
    // Our own words are read once.
    office.asked_again();
    let before = github.received_requests().len();
    office.asked_again();
    let asked: Vec<(u16, String)> =
        github.received_requests().split_off(before).into_iter().map(|asked| (asked.status, asked.path)).collect();
    assert!(asked.iter().all(|(status, _)| *status == 304), "{asked:#?}");
    let status = office.grove.grove(["status", "--json"]).assert_success().json();
    assert_eq!(status["adapters"]["github"]["detail"], "as grove-bot, asks every 1 s");
}

#[test]
fn what_is_from_before_is_not_for_us() {
    let store = TestStore::new(TestEngine::Sqlite);
    let mut office = GithubTest::with_polling(store);
    office.server.terminate();
    let long_ago = "2020-01-01T00:00:00Z";
    let github = &office.github;
    let old = github.open_issue("alice", "Old", "@grove echo no");
    let comment = github.comment("alice", old, "@grove echo no");
    github.written_at(old, None, long_ago);
    github.written_at(old, Some(comment), long_ago);
    office.restart_server();
    // The issue changes, but without a new comment.
    office.github.label("alice", old, "bug");
    let new = office.github.open_issue("alice", "New", "@grove echo yes");
    assert_eq!(office.wait_for_replies(new, 2)[1], "yes");
    assert_eq!(office.bot_replies(old), Vec::<String>::new());
    office.github.edit_comment("alice", comment, "@grove echo changed");
    assert_eq!(office.wait_for_replies(old, 2)[1], "changed");
}

#[test]
fn many_pages_are_read() {
    let mut office = GithubTest::with_polling(TestStore::new(TestEngine::Sqlite));
    let issue = office.github.open_issue("alice", "One", "");
    office.asked_again();
    office.server.terminate();
    office.github.comment("alice", issue, "@grove echo first");
    for number in 0..230 {
        office.github.comment("alice", issue, &format!("{number}"));
    }
    office.github.comment("alice", issue, "@grove echo last");
    office.restart_server();
    assert_eq!(office.wait_for_replies(issue, 3)[1..], ["first", "last"]);
}

#[test]
fn a_repository_that_is_not_there_does_not_stand_in_the_way() {
    let settings = POLL_SETTINGS.replace("[", "[\"octo/gone\", ");
    let office = GithubTest::set_up(TestStore::new(TestEngine::Sqlite), LAST_LINE_AGENT, &settings, true);
    let issue = office.github.open_issue("alice", "One", "@grove echo hello");
    assert_eq!(office.wait_for_replies(issue, 2)[1], "hello");
    let status = office.grove.grove(["status", "--json"]).assert_success().json();
    let github = &status["adapters"]["github"];
    assert_eq!(github["state"], "failing");
    assert!(github["detail"].as_str().unwrap().starts_with("octo/gone: GitHub does not know it"), "{github}");
    // Nor does one that does not answer.
    office.github.fail_next_of("GET", "/repos/octo/gone", 1_000, RequestFault::Status(502));
    office.github.comment("alice", issue, "@grove echo again");
    assert_eq!(office.wait_for_replies(issue, 3)[2], "again");
}
