//! Pull requests.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::github::api::Github;
use crate::github::api::error::ApiError;
use crate::github::api::send::escaped;
use crate::github::inbound::context::{ChangedFile, ChangedFiles};
use crate::github::inbound::wire::Pull;
use crate::github::repo::RepoName;

/// A pull request to be opened.
#[derive(Clone, Debug)]
pub struct NewPull<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub head: &'a str,
    pub base: &'a str,
}

/// How many pages of a hundred files are read.
const FILE_PAGES: usize = 2;

const CLOSES: &str = "query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) { \
     pullRequest(number: $number) { closingIssuesReferences(first: 100) { nodes { number repository { nameWithOwner } } } } } }";

impl Github {
    pub async fn pull(&self, repo: &RepoName, number: u64) -> Result<Pull, ApiError> {
        self.get(repo, &format!("/pulls/{number}")).await?.json()
    }

    /// The same word for word, as a webhook has it.
    pub async fn raw_pull(&self, repo: &RepoName, number: u64) -> Result<Value, ApiError> {
        self.get(repo, &format!("/pulls/{number}")).await?.json()
    }

    pub async fn files(&self, repo: &RepoName, number: u64) -> Result<ChangedFiles, ApiError> {
        #[derive(Deserialize)]
        struct File {
            filename: String,
            status: Option<String>,
            additions: Option<u64>,
            deletions: Option<u64>,
            previous_filename: Option<String>,
        }
        let path = format!("/pulls/{number}/files?per_page=100");
        let (files, more) = self.pages::<File>(repo, &path, FILE_PAGES).await?;
        let changed = |file: File| ChangedFile {
            path: file.filename,
            status: file.status.unwrap_or_default(),
            additions: file.additions.unwrap_or_default(),
            deletions: file.deletions.unwrap_or_default(),
            previous_path: file.previous_filename,
        };
        Ok(ChangedFiles { files: files.into_iter().map(changed).collect(), more })
    }

    /// The issues of the same repository that GitHub will close with a pull request.
    pub async fn closes(&self, repo: &RepoName, number: u64) -> Result<Vec<u64>, ApiError> {
        let variables = json!({ "owner": repo.owner(), "name": repo.name(), "number": number });
        let data = self.graphql(repo, CLOSES, &variables).await?;
        let nodes = &data["repository"]["pullRequest"]["closingIssuesReferences"]["nodes"];
        let of_this = |node: &&Value| {
            let name = node["repository"]["nameWithOwner"].as_str().and_then(RepoName::parse);
            name.is_some_and(|name| name.is(repo))
        };
        Ok(nodes.as_array().into_iter().flatten().filter(of_this).filter_map(|node| node["number"].as_u64()).collect())
    }

    /// The pull request from a branch of the repository itself: the open one, or the last one.
    pub async fn pull_from(&self, repo: &RepoName, branch: &str) -> Result<Option<Pull>, ApiError> {
        let head = escaped(&format!("{}:{branch}", repo.owner()));
        let path = format!("/pulls?head={head}&state=all&sort=created&direction=desc&per_page=100");
        let mut found: Vec<Pull> = self.get(repo, &path).await?.list()?;
        // Where the owner is not known, GitHub leaves the filter out.
        found.retain(|pull| pull.branch().is_some_and(|head| head.as_str() == branch) && !pull.is_from_fork());
        let open = found.iter().position(|pull| pull.state.as_deref() == Some("open"));
        Ok(if found.is_empty() { None } else { Some(found.swap_remove(open.unwrap_or(0))) })
    }

    pub async fn open_pull(&self, repo: &RepoName, new: &NewPull<'_>) -> Result<Pull, ApiError> {
        let body = json!({ "title": new.title, "body": new.body, "head": new.head, "base": new.base });
        self.ask(repo, Method::POST, "/pulls", Some(&body)).await?.json()
    }
}
