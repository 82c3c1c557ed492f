//! Branches go to GitHub, and become pull requests.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use grove_testkit::github::RequestFault;
use grove_testkit::{TestRepo, TestServer};

use super::harness::GithubStoryTest;

#[test]
fn the_work_is_pushed_and_becomes_a_pull_request() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login \"fails\"", "It does.");
    world.ask_until(issue, "/push", |said| said.starts_with("This conversation works in no worktree."));
    world.ask_until(issue, &format!("env > {}/env; echo done", world.grove.repo.temp_dir().display()), |said| {
        said == "done"
    });
    let nothing = world.ask_bot(issue, "/push");
    assert!(nothing.starts_with("`issue-1` has no commits of its own yet."), "{nothing}");
    world.commit_file(issue, "login.txt");
    let pushed = world.ask_bot(issue, "/push");
    let sha = world.github.resolve_sha("issue-1").expect("it is there");
    assert_eq!(pushed, format!("Pushed `issue-1` to `origin`, at {}.", &sha[..7]));
    assert_eq!(
        world.ask_bot(issue, "/push"),
        format!("`origin` has everything of `issue-1` already, at {}.", &sha[..7])
    );
    let config = fs::read_to_string(world.workspace_path().join(".git/config")).unwrap();
    assert!(config.contains("[branch \"issue-1\"]\n\tremote = origin\n\tmerge = refs/heads/issue-1"), "{config}");

    world.commit_file(issue, "more.txt");
    let opened = world.ask_bot(issue, "/pr");
    let url = format!("{}/octo/shop/pull/2", world.github.api_url());
    assert!(opened.ends_with(&format!("Opened pull request #2: {url}")), "{opened}");
    let pull = world
        .github
        .received_requests()
        .into_iter()
        .rev()
        .find(|asked| asked.method == "POST" && asked.path.ends_with("/pulls"));
    let pull: serde_json::Value = serde_json::from_str(&pull.expect("it was opened").body).unwrap();
    assert_eq!(pull["title"], "Login \"fails\"");
    assert_eq!((&pull["head"], &pull["base"], &pull["body"]), (&"issue-1".into(), &"main".into(), &"Fixes #1".into()));
    let again = world.ask_bot(issue, "/pr Don't open another");
    assert!(again.ends_with(&format!("It has pull request #2: {url}")), "{again}");

    // It is in the record, and in the file for others.
    let environment = world.list_environments().remove(0);
    assert_eq!(environment["metadata"]["related_prs"], serde_json::json!([2]));
    let mirror = world.workspace_path().join(".grove/worktrees/issue-1/worktree.json");
    let mirror = || serde_json::from_slice::<serde_json::Value>(&fs::read(&mirror).unwrap()).unwrap();
    assert_eq!((&mirror()["pr"]["number"], &mirror()["pr"]["state"]), (&2.into(), &"open".into()));
    assert_eq!(mirror()["pr"]["url"], url);

    // Neither git's arguments, nor the agent's environment, nor any file has the token.
    let env = fs::read_to_string(world.grove.repo.temp_dir().join("env")).unwrap();
    assert!(!env.contains("ghp_") && !env.contains("GROVE_GIT"), "{env}");
    assert!(world.git_calls().lines().any(|call| call.contains(" push ")));
    world.assert_secret_kept();
}

#[test]
fn what_is_not_committed_is_not_pushed_and_that_is_said() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.commit_file(issue, "login.txt");
    let change =
        "mkdir more && touch more/a more/b && git mv login.txt sign-in.txt && echo x >> sign-in.txt; echo done";
    world.ask_until(issue, change, |said| said == "done");
    let pushed = world.ask_bot(issue, "/push");
    let sha = world.github.resolve_sha("issue-1").expect("it is there");
    let words = format!("Pushed `issue-1` to `origin`, at {}.", &sha[..7]);
    assert_eq!(pushed, format!("{words}\n4 files are not committed, so they were not pushed."));
    world.ask_until(issue, "git reset -q --hard && rm more/a; echo done", |said| said == "done");
    let again = world.ask_bot(issue, "/push");
    assert!(again.ends_with("\n1 file is not committed, so it was not pushed."), "{again}");
    let opened = world.ask_bot(issue, "/pr");
    assert!(opened.contains("1 file is not committed, so it was not pushed.\nOpened pull request #2"), "{opened}");
}

#[test]
fn what_is_told_late_does_not_undo_what_is_newer() {
    let world = GithubStoryTest::start("");
    world.github.push("alice", "feature", "feature.txt", "1");
    let pull = world.github.open_pull("alice", "feature", "A feature", "Please.");
    // What is not committed keeps the worktree.
    world.ask_until(pull, "echo x > unsaved; echo looked", |said| said == "looked");
    let head = world.github.push("alice", "feature", "feature.txt", "2");
    let record = || world.list_environments()[0]["metadata"]["pr"].clone();
    world.wait_until(|| record()["head"] == head, || record().to_string());
    world.github.squash("alice", pull);
    world.wait_until(|| record()["state"] == "merged", || record().to_string());
    world.at_rest();
    let (merged, said) = (record(), world.bot_replies(pull));
    let mirror = world.workspace_path().join(".grove/worktrees/feature/worktree.json");
    let mirrored = fs::read_to_string(&mirror).unwrap();
    assert!(mirrored.contains("merged") && !mirrored.contains("updatedAt"), "{mirrored}");
    // All of it once more, the last first, as if it were new.
    let told = world.github.deliveries().into_iter().filter(|told| told.event == "pull_request");
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 3, "{told:#?}");
    for delivery in told.iter().rev() {
        assert_eq!(world.github.replay(delivery), 202);
    }
    world.at_rest();
    assert_eq!(record(), merged);
    assert_eq!(fs::read_to_string(&mirror).unwrap(), mirrored);
    assert_eq!(world.bot_replies(pull), said, "nobody is told of old commits");
}

#[test]
fn an_app_shows_tokens_of_its_own_to_git() {
    let world = GithubStoryTest::of_app();
    // They are made anew when they are a second old: git gets none that is about to run out.
    world.github.app_tokens_last(601);
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    let said = world.commit_file(issue, "login.txt");
    assert_eq!(said, ["Cloning `octo/shop`…", "Working in isolated branch `issue-1`", "done"]);
    assert!(world.ask_bot(issue, "/pr").contains("Opened pull request #2: "));
    assert!(world.github.resolve_sha("issue-1").is_some());
    let comments = world.github.comments(issue);
    assert!(comments.iter().all(|comment| comment.author == "alice" || comment.author == "grove-dev[bot]"));
    world.assert_secret_kept();
}

#[test]
fn nothing_is_forced() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.commit_file(issue, "login.txt");
    world.ask_bot(issue, "/push");
    let theirs = world.github.push("alice", "issue-1", "theirs.txt", "x");
    world.commit_file(issue, "ours.txt");
    let refused = world.ask_bot(issue, "/push");
    assert!(
        refused.starts_with("`issue-1` has commits on `origin` that are not here.\nNothing was pushed"),
        "{refused}"
    );
    assert_eq!(world.github.resolve_sha("issue-1"), Some(theirs.clone()));
    let synced = world.ask_bot(issue, "/worktree sync");
    assert_eq!(synced, format!("Brought origin/issue-1 at {} into `issue-1`.", &theirs[..7]));
    assert!(world.ask_bot(issue, "/push").starts_with("Pushed `issue-1`"));
}

#[test]
fn what_others_pushed_to_a_branch_that_we_never_pushed_is_brought_in() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.commit_file(issue, "ours.txt");
    let theirs = world.github.push("alice", "issue-1", "theirs.txt", "x");
    assert!(world.ask_bot(issue, "/push").starts_with("`issue-1` has commits on `origin` that are not here."));
    let synced = world.ask_bot(issue, "/worktree sync");
    assert_eq!(synced, format!("Brought origin/issue-1 at {} into `issue-1`.", &theirs[..7]));
    assert!(world.ask_bot(issue, "/push").starts_with("Pushed `issue-1`"));
}

/// The environments of all processes that carry a mark of ours, while they run.
fn environments_of_git() -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    let texts = all.map(|environ| String::from_utf8_lossy(&environ).replace('\0', "\n"));
    texts.filter(|text| text.contains("GROVE_GIT_RUN=")).collect()
}

#[test]
fn the_token_is_in_no_environment_while_git_has_it() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.commit_file(issue, "login.txt");
    world.github.fail_next_of("POST", "git-receive-pack", 1, RequestFault::HoldBefore);
    let before = world.bot_replies(issue).len();
    world.github.comment("alice", issue, "@grove /push");
    assert!(world.github.holds_soon(Duration::from_secs(30)), "git asks");
    let seen = environments_of_git();
    world.github.let_go();
    world.wait_until(|| world.bot_replies(issue).len() > before, || format!("{:#?}", world.bot_replies(issue)));
    assert!(!seen.is_empty(), "git runs");
    assert!(!seen.iter().any(|text| text.contains(&world.token)), "the token is in an environment");
}

/// A process that can write the repository's config cannot choose the way that a token goes, however
/// quickly it changes the config.
#[test]
fn the_repositorys_own_config_does_not_lead_a_token_astray() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.commit_file(issue, "login.txt");
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let config = |args: &[&str]| drop(world.grove.repo.git_in(&world.workspace_path(), &[&["config"], args].concat()));
    for (key, value) in [
        ("http.proxy", address.as_str()),
        ("remote.origin.proxy", &address),
        ("http.sslCAInfo", "/nonexistent"),
        ("credential.helper", "!touch /nonexistent/helper"),
        ("http.extraHeader", "X-Planted: yes"),
        ("core.gitProxy", "/nonexistent"),
    ] {
        config(&[key, value]);
    }
    let pushed = world.ask_bot(issue, "/push");
    assert!(pushed.starts_with("Pushed `issue-1`"), "{pushed}");
    // Written again and again while it is pushed.
    config(&["--unset", "http.proxy"]);
    let file = world.workspace_path().join(".git/config");
    let plain = fs::read_to_string(&file).unwrap();
    let flipped = format!("{plain}[http]\n\tproxy = {address}\n");
    for round in 0..4 {
        world.commit_file(issue, &format!("file-{round}"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let said = std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..20_000 {
                    let new = file.with_extension("flip");
                    fs::write(&new, if n % 2 == 0 { &flipped } else { &plain }).unwrap();
                    fs::rename(&new, &file).unwrap();
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
                fs::write(&file, &plain).unwrap();
            });
            let said = world.ask_bot(issue, "/push");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            said
        });
        assert!(said.starts_with("Pushed `issue-1`"), "{said}");
    }
    assert!(proxy.accept().is_err(), "somebody called at the planted proxy");
    // A second address, where something else would run beside it.
    let elsewhere = world.grove.repo.temp_dir().join("elsewhere.git").display().to_string();
    for address in [world.github.clone_url(), elsewhere] {
        config(&["--add", "remote.origin.pushurl", &address]);
    }
    let refused = world.ask_bot(issue, "/push");
    assert!(refused.starts_with("`remote.origin.url` in the repository's own config could lead"), "{refused}");
}

#[test]
fn a_fork_is_not_pushed_to() {
    let world = GithubStoryTest::start("");
    let pull = world.github.pull_from_fork("mallory", "fix", "A fix", "Please.");
    world.ask_until(pull, "echo looked", |said| said == "looked");
    for command in ["/push", "/pr"] {
        let refused = world.ask_bot(pull, command);
        assert!(refused.starts_with("`pr-1-review` holds pull request #1 for review"), "{refused}");
    }
    assert_eq!(world.github.resolve_sha("pr-1-review"), None);
}

#[test]
fn never_is_never() {
    let world = GithubStoryTest::start("push = \"never\"");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.commit_file(issue, "login.txt");
    for command in ["/push", "/pr"] {
        assert!(world.ask_bot(issue, command).starts_with("Pushing is switched off (`push = \"never\"`)."));
    }
    assert_eq!(world.github.resolve_sha("issue-1"), None);
}

#[test]
fn auto_pushes_what_a_run_left_and_says_so() {
    let world = GithubStoryTest::start("push = \"auto\"");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    let said = world.ask_until(issue, "echo hello", |said| said == "hello");
    assert!(!said.iter().any(|said| said.contains("ushed")), "{said:?}");
    world.commit_file(issue, "login.txt");
    world.wait_until(
        || world.bot_replies(issue).last().is_some_and(|said| said.contains("ushed")),
        || format!("{:#?}", world.bot_replies(issue)),
    );
    let sha = world.github.resolve_sha("issue-1").expect("it is there");
    let said = world.bot_replies(issue);
    assert_eq!(said[said.len() - 2..], ["done".to_owned(), format!("Pushed `issue-1` to `origin`, at {}.", &sha[..7])]);
}

#[test]
fn new_commits_of_a_pull_request_are_told_once() {
    let world = GithubStoryTest::start("");
    world.github.push("alice", "feature", "feature.txt", "1");
    let pull = world.github.open_pull("alice", "feature", "A feature", "Please.");
    world.ask_until(pull, "echo looked", |said| said == "looked");
    let before = world.bot_replies(pull).len();
    let head = world.github.push("alice", "feature", "feature.txt", "2");
    world.wait_until(|| world.bot_replies(pull).len() > before, || format!("{:#?}", world.bot_replies(pull)));
    let told = format!(
        "Pull request #1 has new commits, up to {}, that the worktree `feature` has not; `/worktree sync` brings them in.",
        &head[..7]
    );
    assert_eq!(world.bot_replies(pull)[before..], [told]);
    let last = world.github.deliveries().pop().expect("a delivery");
    world.github.redeliver(&last.id);
    let synced = world.ask_bot(pull, "/worktree sync");
    assert_eq!(synced, format!("Brought origin/feature at {} into `feature`.", &head[..7]));
    // What we push ourselves is no news to us.
    world.commit_file(pull, "ours.txt");
    world.ask_bot(pull, "/push");
    assert_eq!(world.ask_bot(pull, "echo quiet"), "quiet");

    world.github.squash("alice", pull);
    world.wait_until(
        || world.list_environments()[0]["status"] == "destroyed",
        || format!("{:#?}", world.list_environments()),
    );
    assert_eq!(world.list_environments()[0]["metadata"]["pr"]["state"], "merged");
}

#[test]
fn the_default_branch_is_not_pushed() {
    let grove = crate::new_sandbox(TestRepo::with_origin());
    grove.grove(["codebase", "add", "--json"]).assert_success();
    // A person works on another branch, and has the default branch in a worktree.
    grove.repo.git(&["switch", "--quiet", "--create", "elsewhere"]);
    let theirs = grove.repo.temp_dir().join("theirs");
    grove.repo.git(&["worktree", "add", "--quiet", &theirs.display().to_string(), "main"]);
    let server = TestServer::start(&grove);
    server.ask("c", &format!("/worktree adopt {}", theirs.display()));
    server.ask("c", "/worktree link main");
    server.ask("c", "echo x > x; git add x; git -c user.name=a -c user.email=a@b commit -qm x");
    let there = || grove.repo.git(&["ls-remote", "origin", "refs/heads/main"]);
    let before = there();
    for command in ["/push", "/pr"] {
        let refused = server.ask("c", command).remove(0);
        assert!(refused.starts_with("`main` is the default branch, which is not pushed from here."), "{refused}");
    }
    assert_eq!(there(), before);
}

#[test]
fn without_a_forge_a_branch_is_pushed_all_the_same() {
    let grove = crate::new_sandbox(TestRepo::with_origin());
    grove.grove(["codebase", "add", "--json"]).assert_success();
    let server = TestServer::start(&grove);
    server.ask("c", "echo x > x; git add x; git -c user.name=a -c user.email=a@b commit -qm x");
    let refused = server.ask("c", "/pr").remove(0);
    assert!(refused.contains("`adapters.github.token`"), "{refused}");
    let pushed = server.ask("c", "/push").remove(0);
    assert!(pushed.starts_with("Pushed `thread-") && pushed.contains(" to `origin`, at "), "{pushed}");
}
