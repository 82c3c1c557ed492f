//! What people do on a fake GitHub.

use std::sync::mpsc::Receiver;

use super::FakeGithub;
use super::state::Comment;

/// A comment, as a test looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub id: u64,
    pub author: String,
    pub body: String,
    /// Everything that it ever said, the oldest first.
    pub versions: Vec<String>,
    /// Who showed what: `grove-bot: eyes`.
    pub reactions: Vec<String>,
}

impl From<Comment> for Said {
    fn from(comment: Comment) -> Self {
        let reactions = shown(&comment.reactions);
        Self { id: comment.id, author: comment.author, body: comment.body, versions: comment.versions, reactions }
    }
}

fn shown(reactions: &[(String, String)]) -> Vec<String> {
    reactions.iter().map(|(login, content)| format!("{login}: {content}")).collect()
}

/// Waits until all hooks have answered.
fn wait(told: Vec<Receiver<u16>>) {
    for answer in told {
        answer.recv().expect("an answer");
    }
}

impl FakeGithub {
    /// The number of the next issue or pull request.
    pub fn next_number(&self, number: u64) {
        self.state().repo(&self.repo).next_number = number;
    }

    pub fn issue(&self, author: &str, title: &str, body: &str) -> u64 {
        let mut state = self.state();
        let number = state.new_thread(&self.repo, author, title, body);
        let told = self.inner().tell_issue(&mut state, &self.repo, author, number, "opened");
        drop(state);
        wait(told);
        number
    }

    /// Says something; the id of the comment.
    pub fn comment(&self, author: &str, number: u64, body: &str) -> u64 {
        let mut state = self.state();
        let comment = state.new_comment(author, body);
        let id = comment.id;
        let thread = state.thread(&self.repo, number);
        thread.updated_at.clone_from(&comment.updated_at);
        thread.comments.push(comment);
        let told = self.inner().tell_comment(&mut state, &self.repo, author, id, "created");
        drop(state);
        wait(told);
        id
    }

    /// A comment on lines of a file.
    pub fn line_comment(&self, author: &str, number: u64, file: &str, lines: (u64, u64), body: &str) -> u64 {
        let mut state = self.state();
        let mut comment = state.new_comment(author, body);
        comment.lines = Some((file.to_owned(), lines.0, lines.1));
        let id = comment.id;
        let thread = state.thread(&self.repo, number);
        thread.updated_at.clone_from(&comment.updated_at);
        thread.pull.as_mut().expect("a pull request").lines.push(comment);
        let told = self.inner().tell_comment(&mut state, &self.repo, author, id, "created");
        drop(state);
        wait(told);
        id
    }

    pub fn review(&self, author: &str, number: u64, body: &str) -> u64 {
        let mut state = self.state();
        let review = state.new_comment(author, body);
        let id = review.id;
        let thread = state.thread(&self.repo, number);
        thread.updated_at.clone_from(&review.updated_at);
        thread.pull.as_mut().expect("a pull request").reviews.push(review);
        let told = self.inner().tell_comment(&mut state, &self.repo, author, id, "created");
        drop(state);
        wait(told);
        id
    }

    /// Somebody changes a comment, which need not be their own.
    pub fn edit_comment(&self, editor: &str, id: u64, body: &str) {
        let mut state = self.state();
        let now = state.tick();
        state.comment(&self.repo, id).expect("a comment").1.rewrite(editor, body, &now);
        let told = self.inner().tell_comment(&mut state, &self.repo, editor, id, "edited");
        drop(state);
        wait(told);
    }

    /// Somebody changes the text of an issue or pull request.
    pub fn edit(&self, editor: &str, number: u64, body: &str) {
        let mut state = self.state();
        let now = state.tick();
        let thread = state.thread(&self.repo, number);
        (thread.body, thread.updated_at) = (body.to_owned(), now);
        thread.editor = Some(editor.to_owned());
        let told = self.tell_thread(&mut state, editor, number, "edited");
        drop(state);
        wait(told);
    }

    /// Changes the title of an issue or pull request.
    pub fn rename_thread(&self, editor: &str, number: u64, title: &str) {
        let mut state = self.state();
        let now = state.tick();
        let thread = state.thread(&self.repo, number);
        (thread.title, thread.updated_at) = (title.to_owned(), now);
        thread.renamed_by = Some(editor.to_owned());
        let told = self.tell_thread(&mut state, editor, number, "retitled");
        drop(state);
        wait(told);
    }

    pub fn label(&self, who: &str, number: u64, label: &str) {
        let mut state = self.state();
        let now = state.tick();
        let thread = state.thread(&self.repo, number);
        thread.labels.push(label.to_owned());
        thread.updated_at = now;
        let told = self.tell_thread(&mut state, who, number, "labeled");
        drop(state);
        wait(told);
    }

    /// Makes an issue or pull request, or a comment of it, as old as that.
    pub fn written_at(&self, number: u64, comment: Option<u64>, at: &str) {
        let mut state = self.state();
        match comment {
            None => {
                let thread = state.thread(&self.repo, number);
                (thread.created_at, thread.updated_at) = (at.to_owned(), at.to_owned());
            }
            Some(id) => {
                let comment = state.comment(&self.repo, id).expect("a comment").1;
                (comment.created_at, comment.updated_at) = (at.to_owned(), at.to_owned());
            }
        }
    }

    pub fn close(&self, who: &str, number: u64) {
        let mut state = self.state();
        let now = state.tick();
        let thread = state.thread(&self.repo, number);
        (thread.open, thread.closed_at, thread.updated_at) = (false, Some(now.clone()), now);
        let told = self.tell_thread(&mut state, who, number, "closed");
        drop(state);
        wait(told);
    }

    pub fn reopen(&self, who: &str, number: u64) {
        let mut state = self.state();
        let now = state.tick();
        let thread = state.thread(&self.repo, number);
        (thread.open, thread.closed_at, thread.updated_at) = (true, None, now);
        let told = self.tell_thread(&mut state, who, number, "reopened");
        drop(state);
        wait(told);
    }

    fn tell_thread(&self, state: &mut super::State, who: &str, number: u64, action: &str) -> Vec<Receiver<u16>> {
        if state.thread(&self.repo, number).pull.is_some() {
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
        let is_new = repos.sha(repo, &format!("refs/heads/{branch}")).is_none();
        let sha = repos.commit(repo, branch, is_new.then_some("refs/heads/main"), file, text);
        wait(self.inner().after_push(repo, who));
        sha
    }

    /// A pull request from a branch of the repository itself.
    pub fn pull(&self, author: &str, branch: &str, title: &str, body: &str) -> u64 {
        self.open(author, &self.repo, branch, title, body)
    }

    /// A pull request from a fork of the author's, with one commit on this branch.
    pub fn pull_from_fork(&self, author: &str, branch: &str, title: &str, body: &str) -> u64 {
        let fork = self.fork_of(author);
        if !self.state().repos.contains_key(&fork.to_lowercase()) {
            self.add(&fork, Some(&self.repo));
            self.state().repo(&fork).roles.insert(author.to_lowercase(), "admin");
        }
        self.push_to(&fork, author, branch, "from-fork.txt", title);
        self.open(author, &fork, branch, title, body)
    }

    fn open(&self, author: &str, head_repo: &str, branch: &str, title: &str, body: &str) -> u64 {
        let mut state = self.state();
        let number = self.inner().new_pull(&mut state, &self.repo, author, (head_repo, branch, "main"), title, body);
        let number = number.expect("a pull request");
        let told = self.inner().tell_pull(&mut state, &self.repo, author, number, "opened");
        drop(state);
        wait(told);
        number
    }

    fn fork_of(&self, author: &str) -> String {
        format!("{author}/{}", self.repo.split('/').nth(1).expect("a name"))
    }

    pub fn push_to_fork(&self, author: &str, branch: &str, file: &str, text: &str) -> String {
        self.push_to(&self.fork_of(author), author, branch, file, text)
    }

    /// Renames a file on a branch of somebody's fork.
    pub fn rename_in_fork(&self, author: &str, branch: &str, from: &str, to: &str) -> String {
        let fork = self.fork_of(author);
        let sha = self.inner().repos.commit_rename(&fork, branch, from, to);
        wait(self.inner().after_push(&fork, author));
        sha
    }

    pub fn delete_fork(&self, author: &str) {
        let fork = self.fork_of(author);
        self.state().repos.remove(&fork.to_lowercase());
        self.inner().repos.delete(&fork);
    }

    /// The repository gets another name; the old one leads there.
    pub fn rename(&mut self, name: &str) {
        let mut state = self.state();
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
        self.inner().repos.rename(&self.repo, name);
        name.clone_into(&mut self.repo);
    }

    /// What GitHub says that a pull request closes: `octo/shop#42`.
    pub fn closes(&self, number: u64, issues: &[&str]) {
        let issues = issues.iter().map(|issue| {
            let (repo, number) = issue.split_once('#').expect("owner/name#42");
            (repo.to_owned(), number.parse().expect("a number"))
        });
        self.state().thread(&self.repo, number).pull.as_mut().expect("a pull request").closes = issues.collect();
    }

    /// Merges a pull request with a merge commit, and closes what it closes.
    pub fn merge(&self, who: &str, number: u64) -> String {
        self.merge_by(who, number, false)
    }

    pub fn squash(&self, who: &str, number: u64) -> String {
        self.merge_by(who, number, true)
    }

    fn merge_by(&self, who: &str, number: u64, squash: bool) -> String {
        let mut state = self.state();
        let now = state.tick();
        let thread = state.thread(&self.repo, number);
        let pull = thread.pull.as_mut().expect("a pull request");
        let sha = self.inner().repos.merge(&self.repo, &pull.base_branch, &pull.head_sha, squash);
        (pull.merged_at, pull.merge_sha) = (Some(now.clone()), Some(sha.clone()));
        let closes = pull.closes.clone();
        (thread.open, thread.closed_at, thread.updated_at) = (false, Some(now.clone()), now);
        let mut told = self.tell_thread(&mut state, who, number, "closed");
        for (_, issue) in closes.into_iter().filter(|(repo, _)| *repo == self.repo) {
            let now = state.tick();
            let thread = state.thread(&self.repo, issue);
            if std::mem::replace(&mut thread.open, false) {
                (thread.closed_at, thread.updated_at) = (Some(now.clone()), now);
                told.extend(self.tell_thread(&mut state, who, issue, "closed"));
            }
        }
        drop(state);
        wait(told);
        sha
    }

    /// The comments of an issue or pull request, in order.
    pub fn comments(&self, number: u64) -> Vec<Said> {
        self.state().thread(&self.repo, number).comments.iter().cloned().map(Said::from).collect()
    }

    /// A comment of any kind.
    pub fn said(&self, id: u64) -> Said {
        self.state().comment(&self.repo, id).expect("a comment").1.clone().into()
    }

    /// Who showed what to the text of an issue or pull request.
    pub fn reactions(&self, number: u64) -> Vec<String> {
        shown(&self.state().thread(&self.repo, number).reactions)
    }

    /// The head of a pull request.
    pub fn head(&self, number: u64) -> String {
        self.state().thread(&self.repo, number).pull.as_ref().expect("a pull request").head_sha.clone()
    }

    /// The commit that a revision of the repository is.
    pub fn sha(&self, revision: &str) -> Option<String> {
        self.inner().repos.sha(&self.repo, revision)
    }
}
