//! Pull requests.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::github::api::GithubClient;
use crate::github::api::error::ApiError;
use crate::github::api::send::escape_path_part;
use crate::github::inbound::context::{ChangedFile, ChangedFiles};
use crate::github::inbound::wire::PullRequestPayload;
use crate::github::repo::RepoName;

/// A pull request to open.
#[derive(Clone, Debug)]
pub struct CreatePullRequest<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub head: &'a str,
    pub base: &'a str,
}

/// The number of pages, of a hundred files each, that are read.
const MAX_FILE_PAGES: usize = 2;

const CLOSING_ISSUES_QUERY: &str = "query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) { \
     pullRequest(number: $number) { closingIssuesReferences(first: 100) { nodes { number repository { nameWithOwner } } } } } }";

impl GithubClient {
    pub async fn fetch_pull(&self, repo: &RepoName, number: u64) -> Result<PullRequestPayload, ApiError> {
        self.get(repo, &format!("/pulls/{number}")).await?.parse_json()
    }

    /// Returns a pull request as raw JSON, as a webhook contains it.
    pub async fn raw_pull(&self, repo: &RepoName, number: u64) -> Result<Value, ApiError> {
        self.get(repo, &format!("/pulls/{number}")).await?.parse_json()
    }

    pub async fn list_changed_files(&self, repo: &RepoName, number: u64) -> Result<ChangedFiles, ApiError> {
        #[derive(Deserialize)]
        struct PullFile {
            filename: String,
            status: Option<String>,
            additions: Option<u64>,
            deletions: Option<u64>,
            previous_filename: Option<String>,
        }
        let path = format!("/pulls/{number}/files?per_page=100");
        let (files, more) = self.fetch_pages::<PullFile>(repo, &path, MAX_FILE_PAGES).await?;
        let changed = |file: PullFile| ChangedFile {
            path: file.filename,
            status: file.status.unwrap_or_default(),
            additions: file.additions.unwrap_or_default(),
            deletions: file.deletions.unwrap_or_default(),
            previous_path: file.previous_filename,
        };
        Ok(ChangedFiles { files: files.into_iter().map(changed).collect(), more })
    }

    /// Returns the issues of the same repository that GitHub will close with a pull request.
    pub async fn list_closing_issues(&self, repo: &RepoName, number: u64) -> Result<Vec<u64>, ApiError> {
        let variables = json!({ "owner": repo.owner_name(), "name": repo.name(), "number": number });
        let data = self.run_graphql_query(repo, CLOSING_ISSUES_QUERY, &variables).await?;
        let nodes = &data["repository"]["pullRequest"]["closingIssuesReferences"]["nodes"];
        let of_this = |node: &&Value| {
            let name = node["repository"]["nameWithOwner"].as_str().and_then(RepoName::parse);
            name.is_some_and(|name| name.is_same_repo(repo))
        };
        Ok(nodes.as_array().into_iter().flatten().filter(of_this).filter_map(|node| node["number"].as_u64()).collect())
    }

    /// Returns the pull request from a branch of the repository itself: the open one, or the last one.
    pub async fn pull_from(&self, repo: &RepoName, branch: &str) -> Result<Option<PullRequestPayload>, ApiError> {
        let head = escape_path_part(&format!("{}:{branch}", repo.owner_name()));
        let path = format!("/pulls?head={head}&state=all&sort=created&direction=desc&per_page=100");
        let mut found: Vec<PullRequestPayload> = self.get(repo, &path).await?.parse_list()?;
        // If the owner is unknown, GitHub ignores the filter.
        found.retain(|pull| pull.head_branch().is_some_and(|head| head.as_str() == branch) && !pull.is_from_fork());
        let open = found.iter().position(|pull| pull.state.as_deref() == Some("open"));
        Ok(if found.is_empty() { None } else { Some(found.swap_remove(open.unwrap_or(0))) })
    }

    pub async fn open_pull(
        &self,
        repo: &RepoName,
        new: &CreatePullRequest<'_>,
    ) -> Result<PullRequestPayload, ApiError> {
        let body = json!({ "title": new.title, "body": new.body, "head": new.head, "base": new.base });
        self.request_repository(repo, Method::POST, "/pulls", Some(&body)).await?.parse_json()
    }
}
