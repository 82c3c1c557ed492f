//! The state of a fake as GitHub's JSON.

use serde_json::{Value, json};

use super::state::{FakeComment, FakeGithubState, FakeThread, FakeUser};

impl FakeGithubState {
    pub fn user_json(&self, login: &str) -> Value {
        match self.users.get(&login.to_lowercase()) {
            Some(FakeUser { id, login, kind }) => {
                json!({ "id": id, "login": login, "type": kind, "node_id": format!("U_{id}"), "site_admin": false,
                    "avatar_url": format!("{}/avatars/{id}", self.address), "user_view_type": "public" })
            }
            // The account was deleted.
            None => Value::Null,
        }
    }

    pub fn repo_json(&self, name: &str) -> Value {
        let Some(repo) = self.repos.get(&name.to_lowercase()) else { return Value::Null };
        let owner = repo.name.split('/').next().unwrap_or_default();
        json!({ "id": repo.id, "node_id": format!("R_{}", repo.id), "name": repo.name.split('/').nth(1), "full_name": repo.name,
            "private": !repo.public, "archived": repo.archived, "fork": repo.fork_of.is_some(), "owner": { "login": owner, "type": "Organization" },
            "html_url": format!("{}/{}", self.address, repo.name), "clone_url": format!("{}/{}.git", self.address, repo.name),
            "default_branch": repo.default_branch, "visibility": if repo.public { "public" } else { "private" } })
    }

    fn labels_json(thread: &FakeThread) -> Value {
        thread.labels.iter().map(|label| json!({ "name": label, "color": "ededed", "description": null })).collect()
    }

    pub fn issue_json(&self, repo: &str, thread: &FakeThread) -> Value {
        let path = format!("{}/repos/{repo}", self.address);
        let number = thread.number;
        let mut issue = json!({ "id": thread.id, "node_id": thread.node_id(), "number": number, "title": thread.title, "body": thread.body,
            "user": self.user_json(&thread.author), "labels": Self::labels_json(thread), "locked": false,
            "state": if thread.open { "open" } else { "closed" }, "state_reason": null, "comments": thread.comments.len(),
            "created_at": thread.created_at, "updated_at": thread.updated_at, "closed_at": thread.closed_at,
            "url": format!("{path}/issues/{number}"), "html_url": format!("{}/{repo}/issues/{number}", self.address),
            "author_association": "NONE", "issue_dependencies_summary": { "blocked_by": 0 } });
        if let Some(pull) = &thread.pull {
            issue["pull_request"] = json!({ "url": format!("{path}/pulls/{number}"), "merged_at": pull.merged_at });
            issue["html_url"] = json!(format!("{}/{repo}/pull/{number}", self.address));
        }
        issue
    }

    /// Returns a pull request, `whole` or with the fewer fields that it has in a list.
    pub fn pull_json(&self, repo: &str, thread: &FakeThread, whole: bool) -> Value {
        let pull = thread.pull.as_ref().expect("a pull request");
        let end = |name: &str, branch: &str, sha: &str| {
            let owner = name.split('/').next().unwrap_or_default();
            let user = if self.repos.contains_key(&name.to_lowercase()) { self.user_json(owner) } else { Value::Null };
            json!({ "label": format!("{owner}:{branch}"), "ref": branch, "sha": sha, "user": user, "repo": self.repo_json(name) })
        };
        let number = thread.number;
        let mut json = json!({ "id": thread.id + 500_000, "node_id": thread.node_id(), "number": number, "title": thread.title, "body": thread.body,
            "user": self.user_json(&thread.author), "labels": Self::labels_json(thread), "draft": false,
            "state": if thread.open { "open" } else { "closed" }, "created_at": thread.created_at, "updated_at": thread.updated_at,
            "closed_at": thread.closed_at, "merged_at": pull.merged_at, "merge_commit_sha": pull.merge_sha,
            "html_url": format!("{}/{repo}/pull/{number}", self.address),
            "head": end(&pull.head_repo, &pull.head_branch, &pull.head_sha),
            "base": end(repo, &pull.base_branch, &pull.base_sha), "auto_merge": null });
        if whole {
            json["merged"] = json!(pull.merged_at.is_some());
            json["mergeable_state"] = json!("unknown");
        }
        json
    }

    pub fn comment_json(&self, repo: &str, number: u64, comment: &FakeComment) -> Value {
        let path = format!("{}/repos/{repo}", self.address);
        let eyes = comment.reactions.iter().filter(|(_, content)| content == "eyes").count();
        let mut json = json!({ "id": comment.id, "node_id": comment.node_id(), "body": comment.body, "user": self.user_json(&comment.author),
            "created_at": comment.created_at, "updated_at": comment.updated_at, "author_association": "NONE",
            "html_url": format!("{}/{repo}/issues/{number}#issuecomment-{}", self.address, comment.id),
            "reactions": { "total_count": comment.reactions.len(), "eyes": eyes }, "performed_via_github_app": null });
        match &comment.lines {
            None => json["issue_url"] = json!(format!("{path}/issues/{number}")),
            Some((file, from, to)) => {
                json["pull_request_url"] = json!(format!("{path}/pulls/{number}"));
                json["path"] = json!(file);
                json["line"] = json!(to);
                json["start_line"] = if from == to { Value::Null } else { json!(from) };
                json["diff_hunk"] = json!(format!("@@ -{from} +{to} @@\n+changed"));
                json["subject_type"] = json!("line");
            }
        }
        json
    }

    pub fn review_json(&self, comment: &FakeComment) -> Value {
        json!({ "id": comment.id, "node_id": comment.node_id(), "body": comment.body, "user": self.user_json(&comment.author), "state": "commented",
            "submitted_at": comment.created_at, "author_association": "NONE" })
    }
}
