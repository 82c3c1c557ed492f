//! A piece of work from its issue to its merged pull request, and again.

use grove_testkit::both_engines;

use super::GithubTest;

both_engines! {
    fn an_issue_its_pull_request_and_the_issue_again(store: TestStore) {
        the_story(&GithubTest::open(store));
    }
}

both_engines! {
    fn the_same_without_webhooks(store: TestStore) {
        the_story(&GithubTest::with_polling(store));
    }
}

fn the_story(office: &GithubTest) {
    let (github, grove) = (&office.github, &office.grove);
    let checkout = grove.repo.snapshot_checkout();
    github.next_number(42);
    github.open_issue("alice", "Login fails", "It says 500.");

    // Alice mentions the bot: an environment, a reaction, an answer.
    let call = github.comment(
        "alice",
        42,
        "@grove please\necho fixed > fix.txt; git add fix.txt; git commit --quiet -m 'Fix it'; pwd",
    );
    let said = office.wait_for_replies(42, 2);
    assert_eq!(said[0], "Working in isolated branch `issue-42`");
    assert!(said[1].ends_with("/issue-42"), "{said:?}");
    assert_eq!(github.find_comment(call).reactions, ["grove-bot: eyes"]);
    let environment = office.list_environments(false).pop().unwrap();
    assert_eq!((&environment["branch"], &environment["workflow_type"]), (&"issue-42".into(), &"issue".into()));
    assert_eq!(environment["conversations"], serde_json::json!(["octo/shop#42"]));
    assert_eq!(environment["title"], "Login fails");

    // Its work becomes a pull request, which goes on in the same place.
    let worktree = crate::worktree_path(&environment);
    grove.repo.git_in(&worktree, &["push", "--quiet", "origin", "issue-42"]);
    github.next_number(99);
    let pull = github.open_pull("alice", "issue-42", "Fix the login", "Fixes #42\n\n@grove cat fix.txt");
    let said = office.wait_for_replies(pull, 3);
    assert_eq!(said[0], "Reusing worktree from issue #42");
    let head = github.pull_head(pull);
    assert_eq!(said[1], format!("Reviewing PR at commit `{}` (branch: `issue-42`)", &head[..7]));
    assert_eq!(said[2], "fixed");
    let shared = office.list_environments(false);
    assert_eq!(shared.iter().map(|e| e["title"].clone()).collect::<Vec<_>>(), ["Login fails"]);

    // Closed by a user who may not even direct the bot: the pull request still uses the environment.
    github.close("mallory", 42);
    office.at_rest();
    assert_eq!(office.list_environments(false)[0]["conversations"], serde_json::json!(["octo/shop#99"]));

    // Merged: it goes, and nothing is lost.
    let work = grove.repo.git_in(&worktree, &["rev-parse", "HEAD"]);
    github.merge("alice", pull);
    office.at_rest();
    assert_eq!(office.list_environments(false), Vec::<serde_json::Value>::new());
    let ended = office.list_environments(true);
    assert_eq!(ended.iter().map(|e| e["status"].as_str().unwrap()).collect::<Vec<_>>(), ["destroyed"]);
    assert!(!worktree.exists());
    grove.repo.git(&["fetch", "--quiet", "origin"]);
    grove.repo.git(&["merge-base", "--is-ancestor", &work, "origin/main"]);
    assert_eq!(office.bot_replies(42).len(), 2, "{:?}", office.bot_replies(42));
    assert_eq!(office.bot_replies(pull).len(), 3, "{:?}", office.bot_replies(pull));

    // The issue is not over: a new environment for the same number.
    github.reopen("alice", 42);
    github.comment("alice", 42, "@grove git log --format=%s -1");
    let said = office.wait_for_replies(42, 4);
    assert_eq!(said[2], "Working in isolated branch `issue-42`");
    let now = office.list_environments(false).pop().unwrap();
    assert_ne!(now["id"], environment["id"]);
    checkout.assert_untouched();
}
