//! Which branches are merged, and how that is known.

use grove_git::verdict::{BranchTips, MergeVerdict, VerdictSubject, find_verdicts, reflog_tells_of_commits};
use grove_git::{Git, Repository};
use grove_model::CommitSha;
use grove_testkit::{SeededRandom, TestRepo, first_git, installed_gits, is_long_run};

/// A story on `main` and `x`, told with a few verbs.
struct VerdictTest {
    repo: TestRepo,
    began: String,
}

impl VerdictTest {
    fn new(git: &std::path::Path) -> Self {
        let repo = TestRepo::with_git(git);
        let lines: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        repo.write_file("a", &lines);
        repo.write_file("b", &lines);
        let began = repo.commit_all("ground");
        repo.git(&["branch", "x"]);
        Self { repo, began }
    }

    /// Returns a story with the same beginning.
    fn copy(&self) -> Self {
        Self { repo: self.repo.copy(), began: self.began.clone() }
    }

    fn switch_to(&self, branch: &str) {
        if self.repo.read_head() != format!("ref: refs/heads/{branch}") {
            self.repo.git(&["checkout", "-q", branch]);
        }
    }

    /// Changes one line of a file and commits.
    fn change_line(&self, branch: &str, file: &str, line: usize, text: &str) {
        self.switch_to(branch);
        let old = std::fs::read_to_string(self.repo.path().join(file)).unwrap();
        let new: String = old
            .lines()
            .enumerate()
            .map(|(n, was)| if n + 1 == line { format!("{text}\n") } else { format!("{was}\n") })
            .collect();
        self.repo.write_file(file, &new);
        self.repo.commit_all(&format!("{branch}: {file} {line} {text}"));
    }

    /// Writes a file and commits.
    fn commit_file(&self, branch: &str, file: &str, text: &str) {
        self.switch_to(branch);
        self.repo.write_file(file, text);
        self.repo.commit_all(&format!("{branch}: {file}"));
    }

    /// Puts lines behind a line of a file and commits.
    fn insert_lines(&self, branch: &str, file: &str, behind: usize, text: &str) {
        self.switch_to(branch);
        let old = std::fs::read_to_string(self.repo.path().join(file)).unwrap();
        let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
        lines.insert(behind, text);
        self.commit_file(branch, file, &lines.concat());
    }

    /// Takes lines away, from the first that is `from`, and commits.
    fn remove_lines(&self, branch: &str, file: &str, from: &str, count: usize) {
        self.switch_to(branch);
        let old = std::fs::read_to_string(self.repo.path().join(file)).unwrap();
        let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
        let at = lines.iter().position(|line| line.trim_end() == from).unwrap();
        lines.drain(at..at + count);
        self.commit_file(branch, file, &lines.concat());
    }

    fn run_git(&self, args: &[&str]) {
        self.repo.git(args);
    }

    fn squash_merge(&self) {
        self.switch_to("main");
        self.run_git(&["merge", "-q", "--squash", "x"]);
        self.run_git(&["commit", "-q", "-m", "squashed"]);
    }

    async fn verdict_text(&self) -> String {
        let git = Git::with_program(self.repo.hermetic_git());
        let repo = Repository::discover_repository(&git, self.repo.path()).await.unwrap();
        let tips = BranchTips::load_tips(&repo).await.unwrap();
        let log = std::fs::read_to_string(self.repo.path().join(".git/logs/refs/heads/x")).unwrap_or_default();
        let subject = VerdictSubject {
            head: tips.commit_at("refs/heads/x").unwrap().clone(),
            base_sha: Some(self.began.parse().unwrap()),
            bases: tips.base_tips("main"),
            had_own: reflog_tells_of_commits(&log),
        };
        let before = std::fs::read_dir(self.repo.path().join(".git/objects")).unwrap().count();
        let found = find_verdicts(&repo, &[subject]).await.unwrap().remove(0);
        let after = std::fs::read_dir(self.repo.path().join(".git/objects")).unwrap().count();
        assert_eq!(before, after, "a trial leaves no objects");
        verdict_word(&found)
    }
}

fn numbered_lines(word: &str, count: usize) -> String {
    (1..=count).map(|n| format!("{word} {n}\n")).collect()
}

fn verdict_word(verdict: &MergeVerdict) -> String {
    match verdict {
        MergeVerdict::Fresh { .. } => "fresh".to_owned(),
        MergeVerdict::NoChanges { .. } => "no-changes".to_owned(),
        MergeVerdict::Unmerged { .. } => "not merged".to_owned(),
        MergeVerdict::Merged { by, .. } => format!("merged: {by}"),
        MergeVerdict::Unknown { .. } => "unknown".to_owned(),
    }
}

type VerdictScenario = (&'static str, &'static str, fn(&VerdictTest));

const VERDICT_SCENARIOS: [VerdictScenario; 43] = [
    ("nothing happened", "fresh", |_| {}),
    ("only the base went on", "fresh", |s| s.change_line("main", "a", 1, "later")),
    ("brought up to date without a commit", "fresh", |s| {
        s.change_line("main", "a", 1, "later");
        s.switch_to("x");
        s.run_git(&["merge", "-q", "--ff-only", "main"]);
    }),
    ("a commit", "not merged", |s| s.change_line("x", "a", 10, "own")),
    ("merge commit", "merged: ancestor", |s| {
        s.change_line("x", "a", 10, "own");
        s.switch_to("main");
        s.run_git(&["merge", "-q", "--no-ff", "-m", "merge", "x"]);
    }),
    ("fast-forward", "merged: ancestor", |s| {
        s.change_line("x", "a", 10, "own");
        s.switch_to("main");
        s.run_git(&["merge", "-q", "--ff-only", "x"]);
    }),
    ("rebase merge", "merged: same-tree", |s| {
        s.change_line("x", "a", 10, "one");
        s.change_line("x", "b", 10, "two");
        s.change_line("main", "a", 25, "other");
        s.run_git(&["checkout", "-q", "--detach", "x"]);
        s.run_git(&["rebase", "-q", "main"]);
        let tip = s.repo.resolve_sha("HEAD");
        s.switch_to("main");
        s.run_git(&["merge", "-q", "--ff-only", &tip]);
        s.switch_to("x");
        s.run_git(&["merge", "-q", "-m", "up to date", "main"]);
        s.run_git(&["reset", "-q", "--hard", "HEAD~1"]);
        s.switch_to("main");
        s.change_line("main", "a", 25, "line 25");
    }),
    ("rebase merge, the base went on", "merged: merge-tree", |s| {
        s.change_line("x", "a", 10, "one");
        s.change_line("x", "b", 10, "two");
        s.change_line("main", "a", 25, "other");
        s.run_git(&["checkout", "-q", "--detach", "x"]);
        s.run_git(&["rebase", "-q", "main"]);
        let tip = s.repo.resolve_sha("HEAD");
        s.switch_to("main");
        s.run_git(&["merge", "-q", "--ff-only", &tip]);
    }),
    ("squash of one", "merged: same-tree", |s| {
        s.change_line("x", "a", 10, "one");
        s.squash_merge();
    }),
    ("squash of three", "merged: same-tree", |s| {
        for line in [5, 10, 15] {
            s.change_line("x", "a", line, "own");
        }
        s.squash_merge();
    }),
    ("squash of three, later change to another file", "merged: merge-tree", |s| {
        for line in [5, 10, 15] {
            s.change_line("x", "a", line, "own");
        }
        s.squash_merge();
        s.change_line("main", "b", 5, "later");
    }),
    ("squash of three, later change to the same lines", "merged: patch-id", |s| {
        for line in [5, 10, 15] {
            s.change_line("x", "a", line, "own");
        }
        s.squash_merge();
        s.change_line("main", "a", 10, "even later");
    }),
    ("context changed before the squash", "merged: merge-tree", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("main", "a", 13, "context");
        s.squash_merge();
    }),
    ("squash then reverted", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.squash_merge();
        s.run_git(&["revert", "--no-edit", "HEAD"]);
    }),
    ("squash then reverted then changed there", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.squash_merge();
        s.run_git(&["revert", "--no-edit", "HEAD"]);
        s.change_line("main", "a", 10, "something else");
    }),
    ("squash, reverted, reverted again, changed there", "merged: patch-id", |s| {
        s.change_line("x", "a", 10, "own");
        s.squash_merge();
        s.run_git(&["revert", "--no-edit", "HEAD"]);
        s.run_git(&["revert", "--no-edit", "HEAD"]);
        s.change_line("main", "a", 10, "something else");
    }),
    ("the same change but for its spaces", "not merged", |s| {
        s.change_line("x", "a", 10, "if it:   then");
        s.change_line("main", "a", 10, "if it: then");
    }),
    ("squash on a side of the base, later change to the same lines", "merged: patch-id", |s| {
        s.change_line("x", "a", 10, "own");
        s.run_git(&["checkout", "-q", "-b", "side", "main"]);
        s.run_git(&["merge", "-q", "--squash", "x"]);
        s.run_git(&["commit", "-q", "-m", "squashed"]);
        s.change_line("main", "b", 20, "meanwhile");
        s.run_git(&["merge", "-q", "--no-ff", "-m", "side", "side"]);
        s.change_line("main", "a", 10, "even later");
    }),
    ("squash on a side of the base that was merged without it", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.run_git(&["checkout", "-q", "-b", "side", "main"]);
        s.run_git(&["merge", "-q", "--squash", "x"]);
        s.run_git(&["commit", "-q", "-m", "squashed"]);
        s.change_line("main", "a", 10, "another way");
        s.run_git(&["merge", "-q", "-s", "ours", "-m", "side", "side"]);
    }),
    ("squash and its revert, both on sides of the base, changed there", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        for side in ["one", "two"] {
            s.run_git(&["checkout", "-q", "-b", side, "main"]);
            if side == "one" {
                s.run_git(&["merge", "-q", "--squash", "x"]);
                s.run_git(&["commit", "-q", "-m", "squashed"]);
            } else {
                s.run_git(&["revert", "--no-edit", "one"]);
            }
            s.change_line("main", "b", if side == "one" { 5 } else { 15 }, side);
            s.run_git(&["merge", "-q", "--no-ff", "-m", side, side]);
        }
        s.change_line("main", "a", 10, "something else");
    }),
    ("cherry-picks", "merged: merge-tree", |s| {
        s.change_line("x", "a", 10, "one");
        s.change_line("x", "b", 10, "two");
        s.change_line("main", "a", 25, "other");
        s.run_git(&["cherry-pick", "x~1", "x"]);
    }),
    ("one of two cherry-picked", "not merged", |s| {
        s.change_line("x", "a", 10, "one");
        s.change_line("x", "b", 10, "two");
        s.switch_to("main");
        s.run_git(&["cherry-pick", "x~1"]);
    }),
    ("merged, then new commits", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.switch_to("main");
        s.run_git(&["merge", "-q", "--no-ff", "-m", "merge", "x"]);
        s.change_line("x", "b", 10, "more");
    }),
    ("squashed, then new commits", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.squash_merge();
        s.change_line("x", "b", 10, "more");
    }),
    ("revert of the merge", "merged: ancestor", |s| {
        s.change_line("x", "a", 10, "own");
        s.switch_to("main");
        s.run_git(&["merge", "-q", "--no-ff", "-m", "merge", "x"]);
        s.run_git(&["revert", "--no-edit", "-m", "1", "HEAD"]);
    }),
    ("commit then revert", "no-changes", |s| {
        s.change_line("x", "a", 10, "own");
        s.run_git(&["revert", "--no-edit", "HEAD"]);
    }),
    ("commit then revert, up to date", "no-changes", |s| {
        s.change_line("x", "a", 10, "own");
        s.run_git(&["revert", "--no-edit", "HEAD"]);
        s.change_line("main", "b", 10, "later");
        s.switch_to("x");
        s.run_git(&["merge", "-q", "-m", "up to date", "main"]);
    }),
    ("brought up to date, then taken back", "no-changes", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("main", "b", 10, "later");
        s.switch_to("x");
        s.run_git(&["merge", "-q", "-m", "up to date", "main"]);
        s.run_git(&["revert", "--no-edit", "HEAD~1"]);
    }),
    ("squashed, then brought up to date", "merged: same-tree", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("main", "b", 10, "later");
        s.squash_merge();
        s.switch_to("x");
        s.run_git(&["merge", "-q", "-m", "up to date", "main"]);
    }),
    ("squashed, brought up to date, the base went on", "merged: empty-diff", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("main", "b", 10, "later");
        s.squash_merge();
        s.switch_to("x");
        s.run_git(&["merge", "-q", "-m", "up to date", "main"]);
        s.change_line("main", "b", 20, "even later");
    }),
    // What follows a squash in real histories.
    ("squash, then its new file moved and changed, its lines changed", "merged: patch-id", |s| {
        s.change_line("x", "a", 10, "own");
        s.commit_file("x", "new", &numbered_lines("new", 40));
        s.squash_merge();
        s.run_git(&["mv", "new", "moved"]);
        s.commit_file("main", "moved", &numbered_lines("new", 40).replace("new 7\n", "changed\n"));
        s.change_line("main", "a", 10, "later");
    }),
    ("squash, then moved within its file and changed there", "merged: patch-id", |s| {
        s.insert_lines("x", "a", 10, &numbered_lines("own", 6));
        s.change_line("x", "b", 5, "own");
        s.squash_merge();
        s.remove_lines("main", "a", "own 1", 6);
        s.run_git(&["reset", "-q", "--soft", "HEAD~1"]);
        s.insert_lines("main", "a", 25, &numbered_lines("own", 6).replace("own 3\n", "changed\n"));
    }),
    ("squash, then lines added before and behind it", "merged: patch-id", |s| {
        s.insert_lines("x", "a", 10, &numbered_lines("own", 6));
        s.squash_merge();
        s.insert_lines("main", "a", 10, "before\n");
        s.insert_lines("main", "a", 17, "behind\n");
    }),
    ("squash, then its file deleted", "merged: patch-id", |s| {
        s.change_line("x", "a", 10, "own");
        s.squash_merge();
        s.run_git(&["rm", "-q", "a"]);
        s.repo.commit_all("without a");
    }),
    ("squash, then one file of it taken back, the other changed", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("x", "b", 10, "own");
        s.squash_merge();
        s.change_line("main", "b", 10, "line 10");
        s.change_line("main", "a", 10, "later");
    }),
    ("squash, then one place of it taken back, the other changed", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("x", "a", 20, "own too");
        s.squash_merge();
        s.change_line("main", "a", 10, "line 10");
        s.change_line("main", "a", 20, "later");
    }),
    ("squash, then one place of it taken back in two steps, the other changed", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.change_line("x", "a", 20, "own too");
        s.squash_merge();
        s.change_line("main", "a", 10, "between");
        s.change_line("main", "a", 10, "line 10");
        s.change_line("main", "a", 20, "later");
    }),
    ("squash, then taken back together with another change", "not merged", |s| {
        s.insert_lines("x", "a", 10, &numbered_lines("own", 6));
        s.squash_merge();
        s.remove_lines("main", "a", "own 1", 6);
        s.run_git(&["reset", "-q", "--soft", "HEAD~1"]);
        s.change_line("main", "a", 20, "another way");
    }),
    ("squash, then its new file deleted, its lines changed", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.commit_file("x", "new", &numbered_lines("new", 40));
        s.squash_merge();
        s.run_git(&["rm", "-q", "new"]);
        s.repo.commit_all("without it");
        s.change_line("main", "a", 10, "later");
    }),
    ("squash of lines taken away, then they came back, others changed", "not merged", |s| {
        s.remove_lines("x", "a", "line 10", 3);
        s.change_line("x", "a", 20, "own");
        s.squash_merge();
        s.insert_lines("main", "a", 9, "line 10\nline 11\nline 12\n");
        s.change_line("main", "a", 23, "later");
    }),
    ("squash of a mode, then taken back, the rest changed", "not merged", |s| {
        s.change_line("x", "a", 10, "own");
        s.run_git(&["update-index", "--chmod=+x", "b"]);
        s.run_git(&["commit", "-q", "-m", "executable"]);
        s.run_git(&["checkout", "-q", "--", "."]);
        s.squash_merge();
        s.run_git(&["update-index", "--chmod=-x", "b"]);
        s.run_git(&["commit", "-q", "-m", "not executable"]);
        s.run_git(&["checkout", "-q", "--", "."]);
        s.change_line("main", "a", 10, "later");
    }),
    ("squash of a branch that goes on", "not merged", |s| {
        s.insert_lines("x", "a", 10, &numbered_lines("own", 6));
        s.squash_merge();
        s.change_line("main", "a", 12, "later");
        s.change_line("x", "b", 10, "more");
    }),
    ("orphan", "not merged", |s| {
        s.run_git(&["checkout", "-q", "--orphan", "other"]);
        s.repo.commit_all("another beginning");
        s.run_git(&["branch", "-f", "x", "other"]);
        s.change_line("x", "a", 1, "own");
    }),
];

#[tokio::test]
async fn every_scenario_gets_its_verdict_and_method() {
    for git in installed_gits() {
        let (mut wrong, ground) = (Vec::new(), VerdictTest::new(git));
        for (name, wanted, tell) in VERDICT_SCENARIOS {
            let story = ground.copy();
            tell(&story);
            let found = story.verdict_text().await;
            if found != wanted {
                wrong.push(format!("{name}: {found}, not {wanted}"));
            }
        }
        assert_eq!(wrong, Vec::<String>::new(), "{}", git.display());
    }
}

#[tokio::test]
async fn a_base_that_was_rewritten_renamed_or_lost_makes_nothing_merged() {
    let story = VerdictTest::new(&first_git());
    story.change_line("x", "a", 10, "own");
    // Force-pushed: the commit that x began from is not in the base any more.
    story.switch_to("main");
    story.run_git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    story.change_line("main", "b", 10, "other");
    assert_eq!(story.verdict_text().await, "not merged");
    story.run_git(&["reflog", "expire", "--expire=now", "--all"]);
    story.run_git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(story.verdict_text().await, "not merged");
    story.run_git(&["branch", "-m", "main", "trunk"]);
    assert_eq!(story.verdict_text().await, "unknown");
}

#[tokio::test]
async fn the_upstream_of_the_base_counts_too() {
    let repo = TestRepo::with_origin();
    let began = repo.resolve_sha("HEAD");
    repo.git(&["checkout", "-q", "-b", "x"]);
    repo.write_file("own", "own");
    repo.commit_all("own");
    repo.git(&["push", "-q", "origin", "x:main"]);
    repo.git(&["fetch", "-q"]);
    let git = Git::with_program(repo.hermetic_git());
    let repository = Repository::discover_repository(&git, repo.path()).await.unwrap();
    let tips = BranchTips::load_tips(&repository).await.unwrap();
    let subject = |base: &str| VerdictSubject {
        head: repo.resolve_sha("x").parse().unwrap(),
        base_sha: Some(began.parse().unwrap()),
        bases: tips.base_tips(base),
        had_own: true,
    };
    let found =
        find_verdicts(&repository, &[subject("main"), subject("origin/main"), subject("missing")]).await.unwrap();
    assert_eq!(found.iter().map(verdict_word).collect::<Vec<_>>(), ["merged: ancestor", "merged: ancestor", "unknown"]);
}

#[tokio::test]
async fn a_tag_with_words_is_a_base_too() {
    let story = VerdictTest::new(&first_git());
    story.change_line("x", "a", 10, "own");
    story.run_git(&["tag", "-a", "-m", "release", "v1", "x"]);
    let git = Git::with_program(story.repo.hermetic_git());
    let repo = Repository::discover_repository(&git, story.repo.path()).await.unwrap();
    let bases = BranchTips::load_tips(&repo).await.unwrap().base_tips("v1");
    assert_eq!(bases, [story.repo.resolve_sha("x").parse::<CommitSha>().unwrap()]);
}

#[tokio::test]
async fn what_was_in_the_base_when_its_environment_was_made_is_fresh() {
    let story = VerdictTest::new(&first_git());
    story.change_line("x", "a", 10, "own");
    story.squash_merge();
    story.switch_to("main");
    story.run_git(&["merge", "-q", "--no-ff", "-m", "merge", "x"]);
    let git = Git::with_program(story.repo.hermetic_git());
    let repo = Repository::discover_repository(&git, story.repo.path()).await.unwrap();
    let made_at = story.repo.resolve_sha("main");
    story.change_line("main", "a", 20, "later");
    let tips = BranchTips::load_tips(&repo).await.unwrap();
    let subject = |base_sha: &str| VerdictSubject {
        head: tips.commit_at("refs/heads/x").unwrap().clone(),
        base_sha: Some(base_sha.parse().unwrap()),
        bases: tips.base_tips("main"),
        had_own: true,
    };
    let found = find_verdicts(&repo, &[subject(&made_at), subject(&story.began)]).await.unwrap();
    assert_eq!(found.iter().map(verdict_word).collect::<Vec<_>>(), ["fresh", "merged: ancestor"]);
    assert_eq!(found[0].ahead_behind(), Some((0, 3)));
}

#[tokio::test]
async fn unrelated_histories_are_counted_as_git_counts_them() {
    let story = VerdictTest::new(&first_git());
    for line in 1..=4 {
        story.change_line("main", "a", line, "later");
    }
    story.run_git(&["checkout", "-q", "--orphan", "other"]);
    story.repo.commit_all("another beginning");
    story.run_git(&["branch", "-f", "x", "other"]);
    story.change_line("x", "a", 20, "own");
    let git = Git::with_program(story.repo.hermetic_git());
    let repo = Repository::discover_repository(&git, story.repo.path()).await.unwrap();
    let tips = BranchTips::load_tips(&repo).await.unwrap();
    let subject = VerdictSubject {
        head: tips.commit_at("refs/heads/x").unwrap().clone(),
        base_sha: Some(story.repo.resolve_sha("main").parse().unwrap()),
        bases: tips.base_tips("main"),
        had_own: true,
    };
    let count = |range: &str| story.repo.git(&["rev-list", "--count", range]).trim().parse::<u64>().unwrap();
    let found = find_verdicts(&repo, &[subject]).await.unwrap().remove(0);
    assert_eq!(found, MergeVerdict::Unmerged { ahead: count("main..x"), behind: count("x..main") });
    assert_eq!(found.ahead_behind(), Some((2, count("main"))));
}

/// However many branches conflict: no more processes for them.
#[tokio::test]
async fn conflicting_branches_are_judged_in_a_constant_number_of_processes() {
    let story = VerdictTest::new(&first_git());
    let names: Vec<String> = (1..=24).map(|n| format!("x{n}")).collect();
    for name in &names {
        story.repo.write_file(name, &(1..=30).map(|n| format!("line {n}\n")).collect::<String>());
    }
    story.repo.commit_all("files");
    let began = story.repo.resolve_sha("main");
    for (n, name) in (1..).zip(&names) {
        story.run_git(&["branch", name, &began]);
        story.change_line(name, name, 10, "own");
        match n % 3 {
            0 => {
                story.switch_to("main");
                story.run_git(&["merge", "-q", "--squash", name]);
                story.run_git(&["commit", "-q", "-m", "squashed"]);
            }
            1 => story.change_line("main", name, 10, "another way"),
            _ => {}
        }
        story.change_line("main", name, 10, "even later");
    }
    // Counts what it starts.
    let (counting, log) = (story.repo.temp_dir().join("counting-git"), story.repo.temp_dir().join("started"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\nexec '{}' \"$@\"\n",
        log.display(),
        story.repo.hermetic_git().display()
    );
    std::fs::write(&counting, script).unwrap();
    std::fs::set_permissions(&counting, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let git = Git::with_program(counting);
    let repo = Repository::discover_repository(&git, story.repo.path()).await.unwrap();
    let tips = BranchTips::load_tips(&repo).await.unwrap();
    let mut started = Vec::new();
    for count in [3, 24] {
        let subject = |name: &String| VerdictSubject {
            head: tips.commit_at(&format!("refs/heads/{name}")).unwrap().clone(),
            base_sha: Some(began.parse().unwrap()),
            bases: tips.base_tips("main"),
            had_own: true,
        };
        let subjects: Vec<VerdictSubject> = names[..count].iter().map(subject).collect();
        std::fs::write(&log, "").unwrap();
        let found = find_verdicts(&repo, &subjects).await.unwrap();
        started.push(std::fs::read_to_string(&log).unwrap().lines().count());
        let merged: Vec<usize> = (1..)
            .zip(&found)
            .filter(|(_, verdict)| verdict_word(verdict) == "merged: patch-id")
            .map(|(n, _)| n)
            .collect();
        assert_eq!(merged, (1..=count).filter(|n| n % 3 == 0).collect::<Vec<_>>(), "{found:?}");
    }
    println!("{started:?} processes for 3 and 24 branches that conflict");
    assert_eq!(started[0], started[1], "{started:?}");
}

/// One branch as the generator remembers it.
struct GeneratedBranch {
    name: String,
    began: String,
    /// Its own changes: (file, line, text) that are not in the base by any merge of the generator's.
    outstanding: usize,
    had_own: bool,
}

/// Random histories: never merged unless the generator merged everything.
#[tokio::test]
async fn no_random_history_is_wrongly_called_merged() {
    let (rounds, branches) = (if is_long_run() { 60 } else { 4 }, 12);
    let (mut judged, mut merged, mut missed) = (0, 0, 0);
    for round in 0..rounds {
        let mut dice = SeededRandom(round + 1);
        let story = VerdictTest::new(&first_git());
        let mut told = Vec::new();
        let mut text = 0;
        // Which branch a squash on main was of.
        let mut squashes = std::collections::HashMap::new();
        let mut taken_back = Vec::new();
        for n in 0..branches {
            let name = format!("r{n}");
            story.run_git(&["branch", &name, "main"]);
            let mut branch =
                GeneratedBranch { began: story.repo.resolve_sha("main"), name, outstanding: 0, had_own: false };
            for _ in 0..dice.next_below(6) {
                text += 1;
                let (file, line) = (["a", "b"][dice.next_below(2) as usize], 1 + 3 * dice.next_below(10) as usize);
                let conflicted =
                    |args: &[&str]| !story.repo.git_command(story.repo.path(), args).output().unwrap().status.success();
                match dice.next_below(9) {
                    0..=2 => {
                        story.change_line(&branch.name, file, line, &format!("{} {text}", branch.name));
                        branch.outstanding += 1;
                        branch.had_own = true;
                    }
                    3 | 4 => story.change_line("main", file, line, &format!("main {text}")),
                    5 => {
                        story.switch_to("main");
                        if conflicted(&["merge", "-q", "--no-ff", "-m", "merge", &branch.name]) {
                            story.run_git(&["merge", "--abort"]);
                        } else {
                            branch.outstanding = 0;
                            taken_back.retain(|name| *name != branch.name);
                        }
                    }
                    6 => {
                        story.switch_to("main");
                        if conflicted(&["merge", "-q", "--squash", &branch.name]) {
                            story.run_git(&["reset", "-q", "--hard"]);
                        } else if !conflicted(&["commit", "-q", "-m", "squash"]) {
                            branch.outstanding = 0;
                            taken_back.retain(|name| *name != branch.name);
                            squashes.insert(story.repo.resolve_sha("HEAD"), branch.name.clone());
                        } else {
                            story.run_git(&["reset", "-q", "--hard"]);
                        }
                    }
                    7 => {
                        // A squash that is the last thing on main is taken back, whole or in one file,
                        // whosever it was: what it brought is outstanding again.
                        story.switch_to("main");
                        if let Some(owner) = squashes.remove(&story.repo.resolve_sha("HEAD")) {
                            let changed = story.repo.git(&["diff", "--name-only", "HEAD~1", "HEAD"]);
                            match changed.lines().next() {
                                Some(file) if dice.next_below(2) == 0 => {
                                    story.run_git(&["checkout", "-q", "HEAD~1", "--", file]);
                                    story.run_git(&["commit", "-q", "-m", "without it"]);
                                }
                                _ => story.run_git(&["revert", "--no-edit", "HEAD"]),
                            }
                            taken_back.push(owner);
                        }
                    }
                    _ => {
                        story.switch_to(&branch.name);
                        if conflicted(&["merge", "-q", "-m", "up to date", "main"]) {
                            story.run_git(&["merge", "--abort"]);
                        }
                    }
                }
            }
            told.push(branch);
        }
        let git = Git::with_program(story.repo.hermetic_git());
        let repo = Repository::discover_repository(&git, story.repo.path()).await.unwrap();
        let tips = BranchTips::load_tips(&repo).await.unwrap();
        let subject = |branch: &GeneratedBranch| VerdictSubject {
            head: tips.commit_at(&format!("refs/heads/{}", branch.name)).unwrap().clone(),
            base_sha: Some(branch.began.parse::<CommitSha>().unwrap()),
            bases: tips.base_tips("main"),
            had_own: reflog_tells_of_commits(
                &std::fs::read_to_string(story.repo.path().join(".git/logs/refs/heads").join(&branch.name)).unwrap(),
            ),
        };
        let subjects: Vec<VerdictSubject> = told.iter().map(subject).collect();
        for ((branch, subject), verdict) in
            told.iter().zip(&subjects).zip(find_verdicts(&repo, &subjects).await.unwrap())
        {
            judged += 1;
            let contained = story
                .repo
                .git_command(story.repo.path(), &["merge-base", "--is-ancestor", subject.head.as_str(), "main"]);
            let contained = { contained }.output().unwrap().status.success();
            let context = || {
                let log = story.repo.git(&["reflog", &branch.name, "--"]);
                format!("round {round}, {}: {verdict:?}, {} outstanding\n{log}", branch.name, branch.outstanding)
            };
            match verdict.merged_by() {
                Some(_) => {
                    merged += 1;
                    assert!(branch.had_own, "{}", context());
                    let outstanding = branch.outstanding > 0 || taken_back.contains(&branch.name);
                    assert!(!outstanding || contained, "{}", context());
                }
                None => {
                    let outstanding = branch.outstanding > 0 || taken_back.contains(&branch.name);
                    missed += usize::from(branch.had_own && !outstanding);
                }
            }
            if !branch.had_own {
                assert!(
                    matches!(verdict, MergeVerdict::Fresh { .. } | MergeVerdict::NoChanges { .. }),
                    "{}",
                    context()
                );
            }
        }
    }
    println!(
        "{judged} branches of random histories judged: {merged} merged, 0 wrongly; {missed} merged ones not recognised"
    );
    assert!(merged * 20 > judged, "{merged} of {judged}");
}
