//! A piece of work from its issue to its merged pull request, and again.

use grove_testkit::both_engines;

use super::Office;

both_engines! {
    fn an_issue_its_pull_request_and_the_issue_again(store: TestStore) {
        the_story(&Office::open(store));
    }
}

both_engines! {
    fn the_same_without_webhooks(store: TestStore) {
        the_story(&Office::polling(store));
    }
}

fn the_story(office: &Office) {
    let (github, grove) = (&office.github, &office.grove);
    let checkout = grove.repo.canonical();
    github.next_number(42);
    github.issue("alice", "Login fails", "It says 500.");

    // Somebody calls: an environment, a sign, an answer.
    let call = github.comment(
        "alice",
        42,
        "@grove please\necho fixed > fix.txt; git add fix.txt; git commit --quiet -m 'Fix it'; pwd",
    );
    let said = office.answered(42, 2);
    assert_eq!(said[0], "Working in isolated branch `issue-42`");
    assert!(said[1].ends_with("/issue-42"), "{said:?}");
    assert_eq!(github.said(call).reactions, ["grove-bot: eyes"]);
    let environment = office.environments(false).pop().unwrap();
    assert_eq!((&environment["branch"], &environment["workflow_type"]), (&"issue-42".into(), &"issue".into()));
    assert_eq!(environment["conversations"], serde_json::json!(["octo/shop#42"]));

    // Its work becomes a pull request, which goes on in the same place.
    let worktree = crate::path(&environment);
    grove.repo.git_in(&worktree, &["push", "--quiet", "origin", "issue-42"]);
    github.next_number(99);
    let pull = github.pull("alice", "issue-42", "Fix the login", "Fixes #42\n\n@grove cat fix.txt");
    let said = office.answered(pull, 3);
    assert_eq!(said[0], "Reusing worktree from issue #42");
    let head = github.head(pull);
    assert_eq!(said[1], format!("Reviewing PR at commit `{}` (branch: `issue-42`)", &head[..7]));
    assert_eq!(said[2], "fixed");
    assert_eq!(office.environments(false).len(), 1);

    // Closed by somebody who may not even call: the pull request still uses it.
    github.close("mallory", 42);
    office.at_rest();
    assert_eq!(office.environments(false)[0]["conversations"], serde_json::json!(["octo/shop#99"]));

    // Merged: it goes, and nothing is lost.
    let work = grove.repo.git_in(&worktree, &["rev-parse", "HEAD"]);
    github.merge("alice", pull);
    office.at_rest();
    assert_eq!(office.environments(false), Vec::<serde_json::Value>::new());
    let ended = office.environments(true);
    assert_eq!(ended.iter().map(|e| e["status"].as_str().unwrap()).collect::<Vec<_>>(), ["destroyed"]);
    assert!(!worktree.exists());
    grove.repo.git(&["fetch", "--quiet", "origin"]);
    grove.repo.git(&["merge-base", "--is-ancestor", &work, "origin/main"]);
    assert_eq!(office.replies(42).len(), 2, "{:?}", office.replies(42));
    assert_eq!(office.replies(pull).len(), 3, "{:?}", office.replies(pull));

    // The issue is not over: a new environment for the same number.
    github.reopen("alice", 42);
    github.comment("alice", 42, "@grove git log --format=%s -1");
    let said = office.answered(42, 4);
    assert_eq!(said[2], "Working in isolated branch `issue-42`");
    let now = office.environments(false).pop().unwrap();
    assert_ne!(now["id"], environment["id"]);
    checkout.assert_untouched();
}
