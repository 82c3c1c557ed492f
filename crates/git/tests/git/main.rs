//! The git crate against real git: every git that this machine has.

mod base;
mod command;
mod create;
mod diff;
mod include;
mod lock;
mod reading;
mod repository;
mod verdict;
mod withdraw;

use std::path::{Path, PathBuf};

use grove_git::base::{BasePreference, FetchPolicy};
use grove_git::worktree::{
    self, AddWorktreeError, CreatedWorktree, CreationJournal, CreationStep, PreparedWorktree, WorktreeRequest,
    WorktreeSource,
};
use grove_git::{Git, Repository};
use grove_model::{BranchName, Nonce};
use grove_testkit::{TestRepo, installed_gits};

/// Runs a story once with each git.
async fn with_every_git(make: fn(&Path) -> TestRepo, story: impl AsyncFn(&GitTest)) {
    for git in installed_gits() {
        story(&GitTest::open(make(git)).await).await;
    }
}

/// A repository together with the crate under test opened on it.
struct GitTest {
    test: TestRepo,
    git: Git,
    repo: Repository,
}

impl GitTest {
    async fn open(test: TestRepo) -> Self {
        let git = Git::with_program(test.hermetic_git());
        let repo = Repository::discover_repository(&git, test.path()).await.expect("a repository");
        Self { test, git, repo }
    }

    fn worktree_path(&self, name: &str) -> PathBuf {
        self.test.temp_dir().join("worktrees/acme/app").join(name)
    }

    /// Makes a worktree and checks that the canonical checkout was left alone, whatever came out.
    async fn add_worktree(&self, wanted: WorktreeRequest<'_>) -> Result<CreatedWorktree, AddWorktreeError> {
        let path = self.worktree_path(&wanted.branch.as_str().replace('/', "-"));
        self.add_at(&path, wanted).await
    }

    async fn add_at(&self, path: &Path, wanted: WorktreeRequest<'_>) -> Result<CreatedWorktree, AddWorktreeError> {
        let before = self.test.snapshot_checkout();
        let made = self.try_add(path, &wanted).await;
        match (&made, &wanted.source) {
            (Ok(_), WorktreeSource::PullRequestBranch) => before.assert_only_upstream_added(wanted.branch.as_str()),
            _ => before.assert_untouched(),
        }
        if let Ok(created) = &made {
            self.assert_sound(created);
        }
        made
    }

    async fn try_add(&self, path: &Path, wanted: &WorktreeRequest<'_>) -> Result<CreatedWorktree, AddWorktreeError> {
        let prepared = PreparedWorktree::find_source(&self.repo, wanted).await?;
        let created = worktree::add_worktree(&self.repo, path, prepared, Nonce::new(), &SilentJournal).await?;
        created.unlock_worktree()?;
        Ok(created)
    }

    /// A failing creation leaves branches, worktrees and folders as they were.
    async fn expect_refusal(&self, wanted: WorktreeRequest<'_>) -> AddWorktreeError {
        let path = self.worktree_path(&wanted.branch.as_str().replace('/', "-"));
        let before = (self.test.list_branches(), self.test.git(&["worktree", "list", "--porcelain"]), path.exists());
        let error = self.add_worktree(wanted).await.expect_err("it must be refused");
        let after = (self.test.list_branches(), self.test.git(&["worktree", "list", "--porcelain"]), path.exists());
        assert_eq!(before, after, "left behind after: {error}");
        let ours = self.repo.common_dir.join("grove").read_dir().into_iter().flatten();
        let staged =
            ours.map(|entry| entry.unwrap().file_name()).find(|name| name.to_string_lossy().starts_with("staging"));
        assert_eq!(staged, None, "left behind after: {error}");
        error
    }

    /// What a person's own git says of the worktree.
    fn assert_sound(&self, created: &CreatedWorktree) {
        assert_eq!(self.test.git_in(&created.path, &["status", "--porcelain"]), "");
        assert_eq!(self.test.git_in(&created.path, &["symbolic-ref", "--short", "HEAD"]), created.branch.as_str());
        assert_eq!(self.test.git_in(&created.path, &["rev-parse", "HEAD"]), created.head.as_str());
        let listed = self.test.git(&["worktree", "list", "--porcelain"]);
        assert!(listed.contains(&format!("worktree {}\n", created.path.display())), "{listed}");
        assert!(!listed.contains("locked") && !listed.contains("prunable"), "{listed}");
        self.test.git(&["fsck", "--no-dangling"]);
    }
}

/// A journal that discards every step.
struct SilentJournal;

#[async_trait::async_trait]
impl CreationJournal for SilentJournal {
    async fn record_step(&self, _: CreationStep) -> Result<(), AddWorktreeError> {
        Ok(())
    }
}

fn parse_branch(name: &str) -> BranchName {
    BranchName::parse(name).expect(name)
}

/// An issue, task or thread, from the repository's default, with nothing said.
fn want_own_branch<'a>(branch: &'a BranchName, remote: Option<&'a str>) -> WorktreeRequest<'a> {
    let base = BasePreference::default();
    WorktreeRequest {
        branch,
        source: WorktreeSource::OwnBranch,
        remote,
        base_remote: remote,
        base,
        fetch: FetchPolicy::Always,
    }
}
