//! The actions of people on a fake GitHub.

use std::sync::mpsc::Receiver;

use super::FakeGithub;
use super::state::FakeComment;

/// A comment, as a test sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentView {
    pub id: u64,
    pub author: String,
    pub body: String,
    /// All versions of its text, the oldest first.
    pub versions: Vec<String>,
    /// The reactions with their authors: `grove-bot: eyes`.
    pub reactions: Vec<String>,
}

impl From<FakeComment> for CommentView {
    fn from(comment: FakeComment) -> Self {
        let reactions = format_reactions(&comment.reactions);
        Self { id: comment.id, author: comment.author, body: comment.body, versions: comment.versions, reactions }
    }
}

fn format_reactions(reactions: &[(String, String)]) -> Vec<String> {
    reactions.iter().map(|(login, content)| format!("{login}: {content}")).collect()
}

/// Waits until all hooks have answered.
fn wait_for_hooks(told: Vec<Receiver<u16>>) {
    for answer in told {
        answer.recv().expect("an answer");
    }
}

impl FakeGithub {
    /// Sets the number of the next issue or pull request.
    pub fn next_number(&self, number: u64) {
        self.lock_state().repo_mut(&self.repo).next_number = number;
    }

    pub fn open_issue(&self, author: &str, title: &str, body: &str) -> u64 {
        let mut state = self.lock_state();
        let number = state.new_thread(&self.repo, author, title, body);
        let told = self.inner().tell_issue(&mut state, &self.repo, author, number, "opened");
        drop(state);
        wait_for_hooks(told);
        number
    }

    /// Adds a comment, and returns its id.
    pub fn comment(&self, author: &str, number: u64, body: &str) -> u64 {
        let mut state = self.lock_state();
        let comment = state.new_comment(author, body);
        let id = comment.id;
        let thread = state.thread_mut(&self.repo, number);
        thread.updated_at.clone_from(&comment.updated_at);
        thread.comments.push(comment);
        let told = self.inner().tell_comment(&mut state, &self.repo, author, id, "created");
        drop(state);
        wait_for_hooks(told);
        id
    }

    /// Adds a comment on lines of a file, and returns its id.
    pub fn line_comment(&self, author: &str, number: u64, file: &str, lines: (u64, u64), body: &str) -> u64 {
        let mut state = self.lock_state();
        let mut comment = state.new_comment(author, body);
        comment.lines = Some((file.to_owned(), lines.0, lines.1));
        let id = comment.id;
        let thread = state.thread_mut(&self.repo, number);
        thread.updated_at.clone_from(&comment.updated_at);
        thread.pull.as_mut().expect("a pull request").lines.push(comment);
        let told = self.inner().tell_comment(&mut state, &self.repo, author, id, "created");
        drop(state);
        wait_for_hooks(told);
        id
    }

    pub fn review(&self, author: &str, number: u64, body: &str) -> u64 {
        let mut state = self.lock_state();
        let review = state.new_comment(author, body);
        let id = review.id;
        let thread = state.thread_mut(&self.repo, number);
        thread.updated_at.clone_from(&review.updated_at);
        thread.pull.as_mut().expect("a pull request").reviews.push(review);
        let told = self.inner().tell_comment(&mut state, &self.repo, author, id, "created");
        drop(state);
        wait_for_hooks(told);
        id
    }

    /// Changes a comment as `editor`, who need not be its author.
    pub fn edit_comment(&self, editor: &str, id: u64, body: &str) {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        state.comment_mut(&self.repo, id).expect("a comment").1.edit_body(editor, body, &now);
        let told = self.inner().tell_comment(&mut state, &self.repo, editor, id, "edited");
        drop(state);
        wait_for_hooks(told);
    }

    /// Changes the text of an issue or pull request as `editor`.
    pub fn edit(&self, editor: &str, number: u64, body: &str) {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        let thread = state.thread_mut(&self.repo, number);
        (thread.body, thread.updated_at) = (body.to_owned(), now);
        thread.editor = Some(editor.to_owned());
        let told = self.tell_thread(&mut state, editor, number, "edited");
        drop(state);
        wait_for_hooks(told);
    }

    /// Changes the title of an issue or pull request.
    pub fn rename_thread(&self, editor: &str, number: u64, title: &str) {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        let thread = state.thread_mut(&self.repo, number);
        (thread.title, thread.updated_at) = (title.to_owned(), now);
        thread.renamed_by = Some(editor.to_owned());
        let told = self.tell_thread(&mut state, editor, number, "retitled");
        drop(state);
        wait_for_hooks(told);
    }

    pub fn label(&self, who: &str, number: u64, label: &str) {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        let thread = state.thread_mut(&self.repo, number);
        thread.labels.push(label.to_owned());
        thread.updated_at = now;
        let told = self.tell_thread(&mut state, who, number, "labeled");
        drop(state);
        wait_for_hooks(told);
    }

    /// Sets the time at which an issue or pull request, or a comment of it, was written.
    pub fn written_at(&self, number: u64, comment: Option<u64>, at: &str) {
        let mut state = self.lock_state();
        match comment {
            None => {
                let thread = state.thread_mut(&self.repo, number);
                (thread.created_at, thread.updated_at) = (at.to_owned(), at.to_owned());
            }
            Some(id) => {
                let comment = state.comment_mut(&self.repo, id).expect("a comment").1;
                (comment.created_at, comment.updated_at) = (at.to_owned(), at.to_owned());
            }
        }
    }

    pub fn close(&self, who: &str, number: u64) {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        let thread = state.thread_mut(&self.repo, number);
        (thread.open, thread.closed_at, thread.updated_at) = (false, Some(now.clone()), now);
        let told = self.tell_thread(&mut state, who, number, "closed");
        drop(state);
        wait_for_hooks(told);
    }

    pub fn reopen(&self, who: &str, number: u64) {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        let thread = state.thread_mut(&self.repo, number);
        (thread.open, thread.closed_at, thread.updated_at) = (true, None, now);
        let told = self.tell_thread(&mut state, who, number, "reopened");
        drop(state);
        wait_for_hooks(told);
    }

    fn tell_thread(
        &self,
        state: &mut super::FakeGithubState,
        who: &str,
        number: u64,
        action: &str,
    ) -> Vec<Receiver<u16>> {
        if state.thread_mut(&self.repo, number).pull.is_some() {
            self.inner().tell_pull(state, &self.repo, who, number, action)
        } else {
            self.inner().tell_issue(state, &self.repo, who, number, action)
        }
    }

    /// Pushes a commit with one file to a branch, which begins at `main` if it is new.
    pub fn push(&self, who: &str, branch: &str, file: &str, text: &str) -> String {
        self.push_to(&self.repo, who, branch, file, text)
    }

    fn push_to(&self, repo: &str, who: &str, branch: &str, file: &str, text: &str) -> String {
        let repos = &self.inner().repos;
        let is_new = repos.resolve_sha(repo, &format!("refs/heads/{branch}")).is_none();
        let sha = repos.commit_file(repo, branch, is_new.then_some("refs/heads/main"), file, text);
        wait_for_hooks(self.inner().after_push(repo, who));
        sha
    }

    /// Opens a pull request from a branch of the repository itself.
    pub fn open_pull(&self, author: &str, branch: &str, title: &str, body: &str) -> u64 {
        self.open_pull_from(author, &self.repo, branch, title, body)
    }

    /// Opens a pull request from the author's fork, with one commit on this branch.
    pub fn pull_from_fork(&self, author: &str, branch: &str, title: &str, body: &str) -> u64 {
        let fork = self.fork_of(author);
        if !self.lock_state().repos.contains_key(&fork.to_lowercase()) {
            self.add_repo(&fork, Some(&self.repo));
            self.lock_state().repo_mut(&fork).roles.insert(author.to_lowercase(), "admin");
        }
        self.push_to(&fork, author, branch, "from-fork.txt", title);
        self.open_pull_from(author, &fork, branch, title, body)
    }

    fn open_pull_from(&self, author: &str, head_repo: &str, branch: &str, title: &str, body: &str) -> u64 {
        let mut state = self.lock_state();
        let number = self.inner().new_pull(&mut state, &self.repo, author, (head_repo, branch, "main"), title, body);
        let number = number.expect("a pull request");
        let told = self.inner().tell_pull(&mut state, &self.repo, author, number, "opened");
        drop(state);
        wait_for_hooks(told);
        number
    }

    fn fork_of(&self, author: &str) -> String {
        format!("{author}/{}", self.repo.split('/').nth(1).expect("a name"))
    }

    pub fn push_to_fork(&self, author: &str, branch: &str, file: &str, text: &str) -> String {
        self.push_to(&self.fork_of(author), author, branch, file, text)
    }

    /// Renames a file on a branch of the author's fork.
    pub fn rename_in_fork(&self, author: &str, branch: &str, from: &str, to: &str) -> String {
        let fork = self.fork_of(author);
        let sha = self.inner().repos.commit_rename(&fork, branch, from, to);
        wait_for_hooks(self.inner().after_push(&fork, author));
        sha
    }

    pub fn delete_fork(&self, author: &str) {
        let fork = self.fork_of(author);
        self.lock_state().repos.remove(&fork.to_lowercase());
        self.inner().repos.delete_repo(&fork);
    }

    /// Renames the repository; the old name redirects to the new one.
    pub fn rename_repo(&mut self, name: &str) {
        let mut state = self.lock_state();
        let mut repo = state.repos.remove(&self.repo.to_lowercase()).expect("a repository");
        name.clone_into(&mut repo.name);
        for thread in repo.threads.values_mut() {
            if let Some(pull) = thread.pull.as_mut().filter(|pull| pull.head_repo == self.repo) {
                name.clone_into(&mut pull.head_repo);
            }
        }
        state.repos.insert(name.to_lowercase(), repo);
        state.moved.insert(self.repo.to_lowercase(), name.to_owned());
        drop(state);
        self.inner().repos.rename_repo(&self.repo, name);
        name.clone_into(&mut self.repo);
    }

    /// Sets the issues that a pull request closes, according to GitHub: `octo/shop#42`.
    pub fn set_closed_issues(&self, number: u64, issues: &[&str]) {
        let issues = issues.iter().map(|issue| {
            let (repo, number) = issue.split_once('#').expect("owner/name#42");
            (repo.to_owned(), number.parse().expect("a number"))
        });
        self.lock_state().thread_mut(&self.repo, number).pull.as_mut().expect("a pull request").closes =
            issues.collect();
    }

    /// Merges a pull request with a merge commit, and closes its issues.
    pub fn merge(&self, who: &str, number: u64) -> String {
        self.merge_by(who, number, false)
    }

    pub fn squash(&self, who: &str, number: u64) -> String {
        self.merge_by(who, number, true)
    }

    fn merge_by(&self, who: &str, number: u64, squash: bool) -> String {
        let mut state = self.lock_state();
        let now = state.next_timestamp();
        let thread = state.thread_mut(&self.repo, number);
        let pull = thread.pull.as_mut().expect("a pull request");
        let sha = self.inner().repos.merge_commit(&self.repo, &pull.base_branch, &pull.head_sha, squash);
        (pull.merged_at, pull.merge_sha) = (Some(now.clone()), Some(sha.clone()));
        let closes = pull.closes.clone();
        (thread.open, thread.closed_at, thread.updated_at) = (false, Some(now.clone()), now);
        let mut told = self.tell_thread(&mut state, who, number, "closed");
        for (_, issue) in closes.into_iter().filter(|(repo, _)| *repo == self.repo) {
            let now = state.next_timestamp();
            let thread = state.thread_mut(&self.repo, issue);
            if std::mem::replace(&mut thread.open, false) {
                (thread.closed_at, thread.updated_at) = (Some(now.clone()), now);
                told.extend(self.tell_thread(&mut state, who, issue, "closed"));
            }
        }
        drop(state);
        wait_for_hooks(told);
        sha
    }

    /// Returns the comments of an issue or pull request, in order.
    pub fn comments(&self, number: u64) -> Vec<CommentView> {
        self.lock_state().thread_mut(&self.repo, number).comments.iter().cloned().map(CommentView::from).collect()
    }

    /// Returns a comment of any kind.
    pub fn find_comment(&self, id: u64) -> CommentView {
        self.lock_state().comment_mut(&self.repo, id).expect("a comment").1.clone().into()
    }

    /// Returns the reactions to the text of an issue or pull request, with their authors.
    pub fn reactions(&self, number: u64) -> Vec<String> {
        format_reactions(&self.lock_state().thread_mut(&self.repo, number).reactions)
    }

    /// Returns the head commit of a pull request.
    pub fn pull_head(&self, number: u64) -> String {
        self.lock_state().thread_mut(&self.repo, number).pull.as_ref().expect("a pull request").head_sha.clone()
    }

    /// Resolves a revision of the repository to its commit.
    pub fn resolve_sha(&self, revision: &str) -> Option<String> {
        self.inner().repos.resolve_sha(&self.repo, revision)
    }
}
