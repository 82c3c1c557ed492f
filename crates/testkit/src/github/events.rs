//! The events that a fake sends to its hooks, for actions of people and of the bot.

use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::FakeGithubInner;
use super::state::{FakeGithubState, FakePull};

impl FakeGithubInner {
    /// Sends an event of a repository to all hooks.
    pub fn notify_hooks(
        &self,
        state: &FakeGithubState,
        repo: &str,
        sender: &str,
        event: &str,
        rest: &Value,
    ) -> Vec<Receiver<u16>> {
        let mut payload = json!({ "repository": state.repo_json(repo), "sender": state.user_json(sender) });
        if let Some(app) = &state.app {
            payload["installation"] = json!({ "id": app.installation });
        }
        for (key, value) in rest.as_object().into_iter().flatten() {
            payload[key] = value.clone();
        }
        self.hooks.send_event(event, &payload)
    }

    pub fn tell_issue(
        &self,
        state: &mut FakeGithubState,
        repo: &str,
        sender: &str,
        number: u64,
        action: &str,
    ) -> Vec<Receiver<u16>> {
        let thread = state.thread_mut(repo, number).clone();
        let rest = json!({ "action": action_name(action), "issue": state.issue_json(repo, &thread), "changes": changes_json(action) });
        self.notify_hooks(state, repo, sender, "issues", &rest)
    }

    pub fn tell_pull(
        &self,
        state: &mut FakeGithubState,
        repo: &str,
        sender: &str,
        number: u64,
        action: &str,
    ) -> Vec<Receiver<u16>> {
        let thread = state.thread_mut(repo, number).clone();
        let pull = state.pull_json(repo, &thread, true);
        let rest = json!({ "action": action_name(action), "number": number, "pull_request": pull, "changes": changes_json(action) });
        self.notify_hooks(state, repo, sender, "pull_request", &rest)
    }

    /// Sends the event of a comment of any kind.
    pub fn tell_comment(
        &self,
        state: &mut FakeGithubState,
        repo: &str,
        sender: &str,
        id: u64,
        action: &str,
    ) -> Vec<Receiver<u16>> {
        let (number, comment) = state.comment_mut(repo, id).expect("a comment");
        let comment = comment.clone();
        let thread = state.thread_mut(repo, number).clone();
        let is_review = thread.pull.as_ref().is_some_and(|pull| pull.reviews.iter().any(|review| review.id == id));
        if is_review {
            let pull = state.pull_json(repo, &thread, false);
            let action = if action == "created" { "submitted" } else { action };
            let rest = json!({ "action": action, "pull_request": pull, "review": state.review_json(&comment), "changes": changes_json(action) });
            return self.notify_hooks(state, repo, sender, "pull_request_review", &rest);
        }
        let json = state.comment_json(repo, number, &comment);
        if comment.lines.is_some() {
            let pull = state.pull_json(repo, &thread, false);
            let rest =
                json!({ "action": action, "pull_request": pull, "comment": json, "changes": changes_json(action) });
            return self.notify_hooks(state, repo, sender, "pull_request_review_comment", &rest);
        }
        let rest = json!({ "action": action, "issue": state.issue_json(repo, &thread), "comment": json, "changes": changes_json(action) });
        self.notify_hooks(state, repo, sender, "issue_comment", &rest)
    }

    /// Opens a pull request from the branch `head` of `head_repo`, into `base` of the repository.
    pub fn new_pull(
        &self,
        state: &mut FakeGithubState,
        repo: &str,
        author: &str,
        (head_repo, head, base): (&str, &str, &str),
        title: &str,
        body: &str,
    ) -> Result<u64, String> {
        let head_sha = self.repos.resolve_sha(head_repo, &format!("refs/heads/{head}")).ok_or("head is not there")?;
        let base_sha = self.repos.resolve_sha(repo, &format!("refs/heads/{base}")).ok_or("base is not there")?;
        if head_sha == base_sha {
            return Err(format!("No commits between {base} and {head}"));
        }
        let same = |pull: &FakePull| pull.head_branch == head && pull.head_repo == head_repo;
        if state.repo_mut(repo).threads.values().any(|thread| thread.open && thread.pull.as_ref().is_some_and(same)) {
            return Err(format!("A pull request already exists for {head}."));
        }
        let number = state.new_thread(repo, author, title, body);
        self.repos.set_pull_head(repo, head_repo, number, &head_sha);
        state.thread_mut(repo, number).pull = Some(FakePull {
            head_repo: head_repo.to_owned(),
            head_branch: head.to_owned(),
            head_sha,
            base_branch: base.to_owned(),
            base_sha,
            merged_at: None,
            merge_sha: None,
            reviews: Vec::new(),
            lines: Vec::new(),
            closes: Vec::new(),
        });
        Ok(number)
    }

    /// Updates the open pull requests whose branch moved, in all repositories.
    pub fn after_push(&self, repo: &str, sender: &str) -> Vec<Receiver<u16>> {
        let mut state = self.lock_state();
        let name = state.repo_mut(repo).name.clone();
        let mut moved = Vec::new();
        for base in state.repos.values() {
            for thread in base.threads.values().filter(|thread| thread.open) {
                let Some(pull) = thread.pull.as_ref().filter(|pull| pull.head_repo == name) else { continue };
                let now = self.repos.resolve_sha(&name, &format!("refs/heads/{}", pull.head_branch));
                if let Some(now) = now.filter(|now| *now != pull.head_sha) {
                    moved.push((base.name.clone(), thread.number, now));
                }
            }
        }
        let mut told = Vec::new();
        for (base, number, sha) in moved {
            self.repos.set_pull_head(&base, &name, number, &sha);
            let now = state.next_timestamp();
            let thread = state.thread_mut(&base, number);
            thread.updated_at = now;
            if let Some(pull) = &mut thread.pull {
                pull.head_sha = sha;
            }
            told.extend(self.tell_pull(&mut state, &base, sender, number, "synchronize"));
        }
        told
    }
}

/// Returns the `changes` of an edit's event.
fn changes_json(action: &str) -> Value {
    match action {
        "edited" => json!({ "body": { "from": "what it said before" } }),
        "retitled" => json!({ "title": { "from": "the title before" } }),
        _ => Value::Null,
    }
}

/// Returns GitHub's name of an action: a change of the title is an edit, too.
fn action_name(action: &str) -> &str {
    if action == "retitled" { "edited" } else { action }
}
