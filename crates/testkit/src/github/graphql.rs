//! GraphQL, as far as a bot uses it: the issues that a pull request closes, and the last editor of a text.

use serde_json::{Value, json};

use super::http::HttpResponse;
use super::state::{FakeComment, FakeGithubState, FakeThread};

impl FakeThread {
    pub fn node_id(&self) -> String {
        format!("T_{}", self.id)
    }
}

impl FakeComment {
    pub fn node_id(&self) -> String {
        format!("C_{}", self.id)
    }
}

fn graphql_error(kind: &str, message: &str) -> HttpResponse {
    HttpResponse::from_json(200, &json!({ "data": null, "errors": [{ "type": kind, "message": message }] }))
}

impl FakeGithubState {
    pub fn answer_graphql(&self, body: &Value) -> HttpResponse {
        let (query, variables) = (body["query"].as_str().unwrap_or_default(), &body["variables"]);
        if query.contains("closingIssuesReferences") {
            return self.closing_references(variables);
        }
        if query.contains("nodes(ids: $ids)") && query.contains("lastEditedAt") {
            return self.last_edits(variables);
        }
        graphql_error("UNKNOWN", "the fake does not know this query")
    }

    fn closing_references(&self, variables: &Value) -> HttpResponse {
        let name = format!(
            "{}/{}",
            variables["owner"].as_str().unwrap_or_default(),
            variables["name"].as_str().unwrap_or_default()
        );
        let number = variables["number"].as_u64().unwrap_or_default();
        let Ok(thread) = self.find_pull(&name, &number.to_string()) else {
            return graphql_error("NOT_FOUND", "Could not resolve to a PullRequest");
        };
        let closes = thread.pull.iter().flat_map(|pull| &pull.closes);
        let nodes: Vec<Value> =
            closes.map(|(repo, number)| json!({ "number": number, "repository": { "nameWithOwner": repo } })).collect();
        let references = json!({ "closingIssuesReferences": { "nodes": nodes } });
        HttpResponse::from_json(200, &json!({ "data": { "repository": { "pullRequest": references } } }))
    }

    /// Returns one node for each id, in their order; `null` and an error for an unknown id.
    fn last_edits(&self, variables: &Value) -> HttpResponse {
        let ids: Vec<&str> = variables["ids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if ids.len() > 100 {
            return graphql_error("ARGUMENT_LIMIT", "You may not provide more than 100 node ids");
        }
        let nodes: Vec<Value> = ids.iter().map(|id| self.node_json(id)).collect();
        let unknown = ids.iter().zip(&nodes).filter(|(_, node)| node.is_null());
        let errors: Vec<Value> = unknown
            .map(|(id, _)| json!({ "type": "NOT_FOUND", "message": format!("Could not resolve to a node with the global id of '{id}'") }))
            .collect();
        let mut answer = json!({ "data": { "nodes": nodes } });
        if !errors.is_empty() {
            answer["errors"] = json!(errors);
        }
        HttpResponse::from_json(200, &answer)
    }

    fn node_json(&self, id: &str) -> Value {
        let text = |node_id: String, body: &str, editor: Option<&str>, at: &str| {
            let edited_at = editor.map(|_| at);
            json!({ "id": node_id, "body": body, "lastEditedAt": edited_at, "editor": editor.map(|login| self.actor_json(login)) })
        };
        for thread in self.repos.values().flat_map(|repo| repo.threads.values()) {
            if thread.node_id() == id {
                let mut json = text(thread.node_id(), &thread.body, thread.editor.as_deref(), &thread.updated_at);
                json["title"] = json!(thread.title);
                let renamed = thread.renamed_by.iter().map(|login| json!({ "actor": self.actor_json(login) }));
                json["timelineItems"] = json!({ "nodes": renamed.collect::<Vec<_>>() });
                return json;
            }
            let of_pull = thread.pull.iter().flat_map(|pull| pull.lines.iter().chain(&pull.reviews));
            if let Some(comment) = thread.comments.iter().chain(of_pull).find(|comment| comment.node_id() == id) {
                return text(comment.node_id(), &comment.body, comment.editor.as_deref(), &comment.updated_at);
            }
        }
        Value::Null
    }

    /// Returns an account as GraphQL writes it; `null` for a deleted one.
    fn actor_json(&self, login: &str) -> Value {
        let Some(user) = self.users.get(&login.to_lowercase()) else { return Value::Null };
        json!({ "__typename": user.kind, "login": user.login.trim_end_matches("[bot]"), "databaseId": user.id })
    }
}
