//! What the forge knows of merges that git cannot see.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use grove_environments::cleanup::select::CleanupScope;
use grove_environments::create::CreateRequest;
use grove_environments::environments::Environments;
use grove_environments::forge::Forge;
use grove_environments::integrate::pull_request::PullRequestUpdate;
use grove_model::{
    BranchName, Codebase, CommitSha, Environment, MergeMethod, PullRequestHead, PullRequestInfo, State, Work,
};
use grove_testkit::{DirectorySnapshot, TestRepo, both_engines};

use crate::{EnvironmentsTest, task_request};

/// Knows the heads that pull requests had when they were merged, and remembers what it was asked.
#[derive(Default)]
struct ScriptedForge {
    merged: Mutex<HashMap<String, CommitSha>>,
    asked: Mutex<Vec<String>>,
}

impl ScriptedForge {
    fn says_merged(&self, environment: &Environment, head: &str) {
        self.merged.lock().unwrap().insert(environment.branch.to_string(), head.parse().unwrap());
    }

    /// What it was asked since the last time.
    fn take_asked_branches(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        asked
    }
}

#[async_trait]
impl Forge for ScriptedForge {
    async fn merged_head(&self, _codebase: &Codebase, environment: &Environment) -> Option<CommitSha> {
        self.asked.lock().unwrap().push(environment.branch.to_string());
        self.merged.lock().unwrap().get(environment.branch.as_str()).cloned()
    }
}

async fn create_environment(world: &EnvironmentsTest, name: &str) -> Environment {
    world.isolation.create_environment(&world.codebase, &task_request(name)).await.unwrap().environment
}

fn commit_file(test: &TestRepo, environment: &Environment, file: &str) -> String {
    fs::write(environment.path.join(file), file).unwrap();
    test.git_in(&environment.path, &["add", file]);
    test.git_in(&environment.path, &["commit", "-q", "-m", file]);
    test.git_in(&environment.path, &["rev-parse", "HEAD"])
}

/// What a list says of each, oldest first.
async fn list_states(isolation: &Environments, codebase: &Codebase) -> Vec<(String, State, Option<MergeMethod>)> {
    let views = isolation.environment_views(codebase, false).await.unwrap();
    views.into_iter().map(|view| (view.branch, view.state, view.merged_by)).collect()
}

both_engines! {
    async fn the_forge_is_believed_for_the_very_commit_that_it_merged(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open_with(&test, &store, &[("GROVE_CLEANUP_GRACE", "0")]).await;
        let merged = create_environment(&world, "merged").await;
        let moved_on = create_environment(&world, "moved-on").await;
        create_environment(&world, "unheard-of").await;
        let head = commit_file(&test, &merged, "a");
        let then = commit_file(&test, &moved_on, "b");
        commit_file(&test, &moved_on, "c");
        let unheard_of = &world.store.list_environments(world.codebase.id, false).await.unwrap()[2];
        commit_file(&test, unheard_of, "d");
        let forge = Arc::new(ScriptedForge::default());
        forge.says_merged(&merged, &head);
        forge.says_merged(&moved_on, &then);
        let isolation = world.isolation.clone().connected_to(forge.clone());
        let by_forge = Some(MergeMethod::Forge);
        assert_eq!(list_states(&isolation, &world.codebase).await, [
            ("merged".to_owned(), State::Merged, by_forge),
            ("moved-on".to_owned(), State::Active, None),
            ("unheard-of".to_owned(), State::Active, None),
        ]);
        assert_eq!(forge.take_asked_branches(), ["merged", "moved-on", "unheard-of"]);
        // It is not remembered as if git had said it.
        assert!(list_states(&world.isolation, &world.codebase).await.iter().all(|(_, _, by)| by.is_none()));

        let before = DirectorySnapshot::from_directory(&merged.path);
        let report = isolation.clean_up(&world.codebase, CleanupScope::Everything, false, &|_, _| {}).await.unwrap();
        assert_eq!(report.removed.iter().map(|gone| gone.branch.as_str()).collect::<Vec<_>>(), ["merged"]);
        assert_eq!((report.skipped, report.failed), (vec![], vec![]));
        assert!(!merged.path.exists() && moved_on.path.exists() && unheard_of.path.exists());
        assert_eq!(test.git(&["branch", "--list", "merged"]), "", "proven merged: the branch goes too");
        test.git(&["reflog", "expire", "--expire=now", "--all"]);
        test.git(&["gc", "--quiet", "--prune=now"]);
        isolation.undo_removal(&world.codebase, &merged).await.unwrap();
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&merged.path)), Vec::<String>::new());
        assert_eq!(test.resolve_sha("merged"), head);
        // A commit made since the merge is not merged.
        commit_file(&test, &merged, "e");
        assert_eq!(list_states(&isolation, &world.codebase).await[0], ("merged".to_owned(), State::Active, None));
    }

    async fn the_forge_is_asked_only_where_git_sees_no_merge(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let forge = Arc::new(ScriptedForge::default());
        let fresh = create_environment(&world, "fresh").await;
        forge.says_merged(&fresh, &test.resolve_sha("main"));
        for name in ["ancestor", "squashed", "reverted", "unmerged"] {
            let environment = create_environment(&world, name).await;
            let head = commit_file(&test, &environment, name);
            match name {
                "ancestor" => drop(test.git(&["merge", "-q", "--no-ff", "-m", "merge", name])),
                "squashed" => {
                    test.git(&["merge", "-q", "--squash", name]);
                    test.git(&["commit", "-q", "-m", "squash"]);
                }
                "reverted" => drop(test.git_in(&environment.path, &["revert", "--no-edit", "HEAD"])),
                _ => {}
            }
            forge.says_merged(&environment, &head);
        }
        let isolation = world.isolation.clone().connected_to(forge.clone());
        // Whether git is asked or its verdicts are remembered.
        for _ in 0..2 {
            let states: Vec<_> = list_states(&isolation, &world.codebase).await.into_iter().map(|(_, state, by)| (state, by)).collect();
            assert_eq!(states, [
                (State::Fresh, None),
                (State::Merged, Some(MergeMethod::Ancestor)),
                (State::Merged, Some(MergeMethod::SameTree)),
                (State::Active, None),
                (State::Merged, Some(MergeMethod::Forge)),
            ]);
            assert_eq!(forge.take_asked_branches(), ["unmerged"]);
        }
    }
}

both_engines! {
    async fn a_pull_request_that_was_merged_before_its_environment_was_made_is_merged_by_the_forge_alone(store: TestStore) {
        let test = TestRepo::with_origin();
        let head = test.push_commit("refs/heads/feature", "origin/main", "feature");
        test.push_commit("refs/heads/main", &head, "later");
        let world = EnvironmentsTest::open(&test, &store).await;
        let branch = BranchName::parse("feature").unwrap();
        let head_of = |sha: &str| PullRequestHead::SameRepo { branch: branch.clone(), at: Some(sha.parse().unwrap()) };
        let request = CreateRequest { work: Work::pull_request("7", head_of(&head)).unwrap(), branch: None, ..task_request("feature") };
        let environment = world.isolation.create_environment(&world.codebase, &request).await.unwrap().environment;
        let forge = Arc::new(ScriptedForge::default());
        let isolation = world.isolation.clone().connected_to(forge.clone());
        let only = async || list_states(&isolation, &world.codebase).await.remove(0);
        assert_eq!(only().await, ("feature".to_owned(), State::Fresh, None));
        forge.says_merged(&environment, &head);
        assert_eq!(only().await, ("feature".to_owned(), State::Merged, Some(MergeMethod::Forge)));
    }

    async fn what_the_forge_told_is_believed_from_the_record(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let (merged, open) = (create_environment(&world, "merged").await, create_environment(&world, "open").await);
        let told = |environment: &Environment, number: u64, state: &str, head: String| PullRequestInfo {
            number,
            url: format!("https://h/{}", environment.branch),
            title: "A change".to_owned(),
            state: state.to_owned(),
            created_at: String::new(),
            head: Some(head.parse().unwrap()),
            updated_at: None,
        };
        for (number, environment, state) in [(7, &merged, "merged"), (8, &open, "open")] {
            let head = commit_file(&test, environment, state);
            let pull_request = told(environment, number, state, head);
            let news = PullRequestUpdate { pull_request, branch: Some(environment.branch.clone()) };
            let about = world.isolation.pull_request_changed(&world.codebase, &news).await.unwrap();
            assert_eq!(about.iter().map(|e| e.id).collect::<Vec<_>>(), [environment.id]);
        }
        let listed = list_states(&world.isolation, &world.codebase).await;
        assert_eq!(listed[0].2, Some(MergeMethod::Forge));
        assert_eq!(listed[1].2, None);
        let kept = world.store.find_environment(merged.id).await.unwrap().unwrap();
        assert_eq!((kept.related_prs, kept.metadata.pr.map(|pr| pr.number)), (vec![7], Some(7)));
    }
}
