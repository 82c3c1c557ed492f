//! GraphQL queries, for data that REST does not have.

use http::Method;
use serde_json::{Value, json};

use crate::github::api::GithubClient;
use crate::github::api::error::ApiError;
use crate::github::api::send::send_api_request;
use crate::github::inbound::event::TextEdit;
use crate::github::inbound::wire::GithubUser;
use crate::github::repo::RepoName;

/// A text as it is now, and the account that changed it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEdit {
    pub body: String,
    pub edit: TextEdit,
    /// Set for an issue or pull request.
    pub title: Option<LastTitle>,
}

/// A title as it is now, and the account that changed it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTitle {
    pub title: String,
    pub edit: TextEdit,
}

const LAST_EDITS_QUERY: &str = "query($ids: [ID!]!) { nodes(ids: $ids) { \
     ... on Comment { body lastEditedAt editor { ...account } } \
     ... on Issue { title timelineItems(itemTypes: [RENAMED_TITLE_EVENT], last: 1) { nodes { ...renaming } } } \
     ... on PullRequest { title timelineItems(itemTypes: [RENAMED_TITLE_EVENT], last: 1) { nodes { ...renaming } } } } } \
     fragment renaming on RenamedTitleEvent { actor { ...account } } \
     fragment account on Actor { __typename login ... on User { databaseId } ... on Bot { databaseId } }";

impl GithubClient {
    /// Returns the last edits of texts, by GraphQL node id and in the same order. `None` for a text that is
    /// gone. GitHub accepts at most a hundred.
    pub async fn last_edits(&self, repo: &RepoName, nodes: &[&str]) -> Result<Vec<Option<LastEdit>>, ApiError> {
        let answer = self.graphql_answer(repo, LAST_EDITS_QUERY, &json!({ "ids": nodes })).await?;
        // A text that is gone is an error beside the others, which are present.
        match answer["data"]["nodes"].as_array() {
            Some(found) if found.len() == nodes.len() => Ok(found.iter().map(last_edit).collect()),
            _ => Err(error_of(&answer).unwrap_or(ApiError::Refused { status: 200, what: "no such answer".to_owned() })),
        }
    }

    /// Runs a query, and rejects a response that contains an error.
    pub(crate) async fn run_graphql_query(
        &self,
        repo: &RepoName,
        query: &str,
        variables: &Value,
    ) -> Result<Value, ApiError> {
        let mut answer = self.graphql_answer(repo, query, variables).await?;
        match error_of(&answer) {
            Some(error) => Err(error),
            None => Ok(answer["data"].take()),
        }
    }

    async fn graphql_answer(&self, repo: &RepoName, query: &str, variables: &Value) -> Result<Value, ApiError> {
        let client = self.graphql_client(repo).await?;
        let body = json!({ "query": query, "variables": variables });
        send_api_request(&client, &Method::POST, "/graphql", Some(&body), None).await?.parse_json()
    }
}

fn error_of(answer: &Value) -> Option<ApiError> {
    let first = answer["errors"].as_array()?.first()?;
    let what = crate::clean::one_line(first["message"].as_str().unwrap_or("no reason given"), 300);
    Some(match first["type"].as_str() {
        Some("RATE_LIMITED") => ApiError::Limited { wait: std::time::Duration::from_secs(60) },
        Some("NOT_FOUND") => ApiError::NotFound(what),
        Some("FORBIDDEN") => ApiError::Forbidden(what),
        _ => ApiError::Refused { status: 200, what },
    })
}

/// Converts a node; `None` if it has no text that we know.
fn last_edit(node: &Value) -> Option<LastEdit> {
    let body = node["body"].as_str()?.to_owned();
    let is_edited = !node.get("lastEditedAt")?.is_null() || !node["editor"].is_null();
    let edit = if is_edited { TextEdit::By(user_from_actor(&node["editor"])) } else { TextEdit::Original };
    let title = node["title"].as_str().map(|title| {
        let edit = match node["timelineItems"]["nodes"].as_array().map(Vec::as_slice) {
            Some([]) => TextEdit::Original,
            Some([.., last]) => TextEdit::By(user_from_actor(&last["actor"])),
            None => TextEdit::NotTold { unchanged: false },
        };
        LastTitle { title: title.to_owned(), edit }
    });
    Some(LastEdit { body, edit, title })
}

/// Converts an account from GraphQL, which omits the suffix of a bot's login.
fn user_from_actor(actor: &Value) -> Option<GithubUser> {
    let (id, login) = (actor["databaseId"].as_u64()?, actor["login"].as_str()?);
    let end = if actor["__typename"] == "Bot" && !login.ends_with("[bot]") { "[bot]" } else { "" };
    Some(GithubUser { id, login: format!("{login}{end}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_not_original() {
        let by = |id: u64, login: &str| TextEdit::By(Some(GithubUser { id, login: login.to_owned() }));
        let at = "2026-01-01T00:00:00Z";
        for (node, edit) in [
            (json!({ "body": "a", "lastEditedAt": null, "editor": null }), Some(TextEdit::Original)),
            (json!({ "body": "a", "lastEditedAt": at, "editor": null }), Some(TextEdit::By(None))),
            (json!({ "body": "a", "lastEditedAt": at, "editor": { "login": "eve" } }), Some(TextEdit::By(None))),
            (
                json!({ "body": "a", "lastEditedAt": null, "editor": { "__typename": "User", "login": "eve", "databaseId": 9 } }),
                Some(by(9, "eve")),
            ),
            (
                json!({ "body": "a", "lastEditedAt": at, "editor": { "__typename": "Bot", "login": "dev", "databaseId": 7 } }),
                Some(by(7, "dev[bot]")),
            ),
            (json!({ "body": "a" }), None),
            (json!({ "lastEditedAt": null, "editor": null }), None),
            (json!(null), None),
        ] {
            assert_eq!(last_edit(&node).map(|found| found.edit), edit, "{node}");
        }
        let title = |items: Value| {
            let node = json!({ "body": "a", "lastEditedAt": null, "title": "t", "timelineItems": items });
            last_edit(&node).unwrap().title.unwrap().edit
        };
        assert_eq!(title(json!({ "nodes": [] })), TextEdit::Original);
        assert_eq!(title(json!({ "nodes": [{ "actor": { "login": "eve", "databaseId": 9 } }] })), by(9, "eve"));
        assert_eq!(title(json!({ "nodes": [{ "actor": null }] })), TextEdit::By(None));
        assert_eq!(title(json!(null)), TextEdit::NotTold { unchanged: false });
    }
}
