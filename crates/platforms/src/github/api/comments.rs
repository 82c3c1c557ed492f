//! Issues and comments.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::github::api::GithubClient;
use crate::github::api::error::ApiError;
use crate::github::api::send::PollResult;
use crate::github::inbound::event::TextPlace;
use crate::github::inbound::wire::{CommentPayload, IssuePayload};
use crate::github::repo::RepoName;

/// A comment that we posted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PostedComment {
    pub id: u64,
    pub html_url: Option<String>,
}

/// A list of a whole repository that is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepositoryList {
    /// Includes pull requests, as issues.
    Issues,
    Pulls,
    Comments,
    /// Comments on lines of pull requests.
    Lines,
}

impl RepositoryList {
    pub fn name(self) -> &'static str {
        match self {
            RepositoryList::Issues => "issues",
            RepositoryList::Pulls => "pulls",
            RepositoryList::Comments => "comments",
            RepositoryList::Lines => "lines",
        }
    }

    fn path(self) -> &'static str {
        match self {
            RepositoryList::Issues => "/issues?state=all&",
            RepositoryList::Pulls => "/pulls?state=all&",
            RepositoryList::Comments => "/issues/comments?",
            RepositoryList::Lines => "/pulls/comments?",
        }
    }
}

/// The number of pages, of a hundred comments each, that are read of a thread.
const MAX_COMMENT_PAGES: usize = 30;

impl GithubClient {
    pub async fn fetch_issue(&self, repo: &RepoName, number: u64) -> Result<IssuePayload, ApiError> {
        self.get(repo, &format!("/issues/{number}")).await?.parse_json()
    }

    /// Returns the comments of an issue or pull request, the oldest first.
    pub async fn list_comments(&self, repo: &RepoName, number: u64) -> Result<Vec<CommentPayload>, ApiError> {
        Ok(self.fetch_pages(repo, &format!("/issues/{number}/comments?per_page=100"), MAX_COMMENT_PAGES).await?.0)
    }

    pub async fn create_comment(&self, repo: &RepoName, number: u64, body: &str) -> Result<PostedComment, ApiError> {
        let path = format!("/issues/{number}/comments");
        self.request_repository(repo, Method::POST, &path, Some(&json!({ "body": body }))).await?.parse_json()
    }

    /// Replaces the text of a comment.
    pub async fn update_comment(&self, repo: &RepoName, comment: u64, body: &str) -> Result<PostedComment, ApiError> {
        let path = format!("/issues/comments/{comment}");
        self.request_repository(repo, Method::PATCH, &path, Some(&json!({ "body": body }))).await?.parse_json()
    }

    /// Adds the reaction 👀. GitHub has no reactions for a review.
    pub async fn add_seen_reaction(&self, repo: &RepoName, number: u64, place: &TextPlace) -> Result<(), ApiError> {
        let path = match place {
            TextPlace::Body => format!("/issues/{number}/reactions"),
            TextPlace::Comment { id } => format!("/issues/comments/{id}/reactions"),
            TextPlace::Lines { id, .. } => format!("/pulls/comments/{id}/reactions"),
            TextPlace::Review { .. } => return Ok(()),
        };
        self.request_repository(repo, Method::POST, &path, Some(&json!({ "content": "eyes" }))).await?;
        Ok(())
    }

    /// Returns a page of a list of the whole repository, the last changed item first, if it changed since
    /// `etag`. The address is the same every time, or the tag would not be valid.
    pub async fn poll_changed_items(
        &self,
        repo: &RepoName,
        list: RepositoryList,
        page: u32,
        etag: Option<&str>,
    ) -> Result<PollResult<Vec<Value>>, ApiError> {
        self.poll_list(repo, &format!("{}sort=updated&direction=desc&per_page=100&page={page}", list.path()), etag)
            .await
    }

    /// Returns an issue as raw JSON, as a webhook contains it.
    pub async fn raw_issue(&self, repo: &RepoName, number: u64) -> Result<Value, ApiError> {
        self.get(repo, &format!("/issues/{number}")).await?.parse_json()
    }

    /// Returns the reviews of a pull request as raw JSON.
    pub async fn raw_reviews(&self, repo: &RepoName, number: u64) -> Result<Vec<Value>, ApiError> {
        Ok(self.fetch_pages(repo, &format!("/pulls/{number}/reviews?per_page=100"), MAX_COMMENT_PAGES).await?.0)
    }
}
