//! GitHub is asked what happened: instead of webhooks, and for what they did not bring.

use grove_testkit::github::Fault;
use grove_testkit::{Engine, TestStore, both_engines};
use serde_json::json;

use super::{OBEDIENT, Office, POLL, SECRET};

both_engines! {
    fn what_was_missed_is_worked_off_once(store: TestStore) {
        let mut office = Office::with(store, "repos = [\"octo/shop\"]");
        let github = &office.github;
        let (asked, closed) = (github.issue("alice", "One", ""), github.issue("alice", "Two", "@grove echo two"));
        github.comment("alice", asked, "@grove echo before");
        office.answered(asked, 2);
        office.answered(closed, 2);
        github.push("alice", "feature", "feature.txt", "1");
        let pull = github.pull("alice", "feature", "A feature", "Please.");
        github.comment("alice", pull, "@grove echo looked");
        office.answered(pull, 2);

        // Nobody is there, and much happens.
        office.server.terminate();
        let github = &office.github;
        let edited = github.comment("alice", asked, "hello");
        github.edit_comment("alice", edited, "@grove echo edited");
        github.comment("mallory", asked, "@grove echo no");
        github.comment("alice", asked, "@grove echo missed");
        let fresh = github.issue("alice", "Three", "@grove echo three");
        github.close("mallory", closed);
        github.line_comment("alice", pull, "feature.txt", (1, 1), "@grove echo lines");
        github.review("alice", pull, "@grove echo review");
        let head = github.push("alice", "feature", "feature.txt", "2");

        office.restart();
        let github = &office.github;
        let told = format!(
            "Pull request #{pull} has new commits, up to {}, that the worktree `feature` has not; `/worktree sync` brings them in.",
            &head[..7]
        );
        assert_eq!(office.answered(asked, 4)[2..], ["edited", "missed"]);
        assert_eq!(office.answered(fresh, 2)[1], "three");
        assert_eq!(office.answered(pull, 5)[2..], ["lines", "review", &told]);
        let live = office.environments(false);
        assert!(!live.iter().any(|environment| environment["workflow_id"] == json!(closed.to_string())), "{live:#?}");

        // GitHub tells it again, and somebody asks again.
        for delivery in github.deliveries() {
            github.redeliver(&delivery.id);
        }
        office.server.terminate();
        office.restart();
        office.github.comment("alice", asked, "@grove echo after");
        assert_eq!(office.answered(asked, 5)[4], "after");
        for (number, many) in [(fresh, 2), (pull, 5), (closed, 2)] {
            assert_eq!(office.replies(number).len(), many, "{:#?}", office.replies(number));
        }
    }
}

both_engines! {
    fn a_close_ends_what_came_before_it_and_nothing_else(store: TestStore) {
        let mut office = Office::with(store, "repos = [\"octo/shop\"]");
        let live = |office: &Office| {
            let live = office.environments(false);
            live.iter().map(|environment| environment["branch"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (lost, over) = (office.github.issue("alice", "One", ""), office.github.issue("alice", "Two", ""));
        // That it was closed is lost; then somebody wants something there.
        office.github.comment("alice", lost, "@grove echo one");
        office.answered(lost, 2);
        let hook = format!("{}/webhooks/github", office.server.address);
        office.github.without_webhooks();
        office.github.close("alice", lost);
        office.github.webhook(&hook, SECRET);
        office.github.comment("alice", lost, "@grove echo two");
        office.answered(lost, 3);
        office.server.terminate();
        // Somebody wants something, and then it is over.
        office.github.comment("alice", over, "@grove echo three");
        office.github.close("alice", over);
        office.restart();
        assert_eq!(office.answered(over, 2)[1], "three");
        office.at_rest();
        assert_eq!(live(&office), [format!("issue-{lost}")]);
    }
}

#[test]
fn who_asks_in_a_closed_issue_is_not_cut_short() {
    let office = Office::polling(TestStore::new(Engine::Sqlite));
    let issue = office.github.issue("alice", "One", "");
    office.github.close("alice", issue);
    office.at_rest();
    office.github.comment("alice", issue, "@grove echo hello");
    office.answered(issue, 2);
    // Our own words change it, too.
    office.at_rest();
    office.at_rest();
    assert_eq!(office.environments(false).len(), 1);
    assert_eq!(office.replies(issue).len(), 2);
}

#[test]
fn credentials_that_hold_no_more_are_said() {
    let office = Office::polling(TestStore::new(Engine::Sqlite));
    office.asked_again();
    let state = || office.grove.grove(["status", "--json"]).ok().json()["adapters"]["github"].clone();
    assert_eq!(state()["state"], "connected");
    office.github.fail_next_of("GET", "/repos/Octo/Shop/issues", 2, Fault::Status(401));
    grove_testkit::wait_for(|| state()["state"] == "failing");
    assert!(state()["detail"].as_str().unwrap().starts_with("GitHub does not take our credentials"), "{}", state());
    grove_testkit::wait_for(|| state()["state"] == "connected");
}

#[test]
fn what_did_not_change_is_not_sent_again() {
    let office = Office::polling(TestStore::new(Engine::Sqlite));
    let github = &office.github;
    let issue = github.issue("alice", "One", "@grove echo hello");
    office.answered(issue, 2);
    // Our own words are read once.
    office.asked_again();
    let before = github.requests().len();
    office.asked_again();
    let asked: Vec<(u16, String)> =
        github.requests().split_off(before).into_iter().map(|asked| (asked.status, asked.path)).collect();
    assert!(asked.iter().all(|(status, _)| *status == 304), "{asked:#?}");
    let status = office.grove.grove(["status", "--json"]).ok().json();
    assert_eq!(status["adapters"]["github"]["detail"], "as grove-bot, asks every 1 s");
}

#[test]
fn what_is_from_before_is_not_for_us() {
    let store = TestStore::new(Engine::Sqlite);
    let mut office = Office::polling(store);
    office.server.terminate();
    let long_ago = "2020-01-01T00:00:00Z";
    let github = &office.github;
    let old = github.issue("alice", "Old", "@grove echo no");
    let comment = github.comment("alice", old, "@grove echo no");
    github.written_at(old, None, long_ago);
    github.written_at(old, Some(comment), long_ago);
    office.restart();
    // It changes, but nobody says anything.
    office.github.label("alice", old, "bug");
    let new = office.github.issue("alice", "New", "@grove echo yes");
    assert_eq!(office.answered(new, 2)[1], "yes");
    assert_eq!(office.replies(old), Vec::<String>::new());
    office.github.edit_comment("alice", comment, "@grove echo changed");
    assert_eq!(office.answered(old, 2)[1], "changed");
}

#[test]
fn many_pages_are_read() {
    let mut office = Office::polling(TestStore::new(Engine::Sqlite));
    let issue = office.github.issue("alice", "One", "");
    office.asked_again();
    office.server.terminate();
    office.github.comment("alice", issue, "@grove echo first");
    for number in 0..230 {
        office.github.comment("alice", issue, &format!("{number}"));
    }
    office.github.comment("alice", issue, "@grove echo last");
    office.restart();
    assert_eq!(office.answered(issue, 3)[1..], ["first", "last"]);
}

#[test]
fn a_repository_that_is_not_there_does_not_stand_in_the_way() {
    let settings = POLL.replace("[", "[\"octo/gone\", ");
    let office = Office::set_up(TestStore::new(Engine::Sqlite), OBEDIENT, &settings, true);
    let issue = office.github.issue("alice", "One", "@grove echo hello");
    assert_eq!(office.answered(issue, 2)[1], "hello");
    let status = office.grove.grove(["status", "--json"]).ok().json();
    let github = &status["adapters"]["github"];
    assert_eq!(github["state"], "failing");
    assert!(github["detail"].as_str().unwrap().starts_with("octo/gone: GitHub does not know it"), "{github}");
    // Nor does one that does not answer.
    office.github.fail_next_of("GET", "/repos/octo/gone", 1_000, Fault::Status(502));
    office.github.comment("alice", issue, "@grove echo again");
    assert_eq!(office.answered(issue, 3)[2], "again");
}
