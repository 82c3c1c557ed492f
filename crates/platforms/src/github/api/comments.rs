//! Issues, and what is said there.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::send::{Polled, escaped};
use super::{ApiError, Github};
use crate::github::event::Place;
use crate::github::repo::RepoName;
use crate::github::wire::{Comment, Issue};

/// A comment that we made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Spoken {
    pub id: u64,
    pub html_url: Option<String>,
}

/// How many pages of a hundred are read of what was said in a thread.
const PAGES: usize = 30;

impl Github {
    pub async fn issue(&self, repo: &RepoName, number: u64) -> Result<Issue, ApiError> {
        self.get(repo, &format!("/issues/{number}")).await?.json()
    }

    /// What was said in an issue or pull request, the oldest first; with `since`, what was said or
    /// changed from then on (`2026-01-31T12:00:00Z`).
    pub async fn comments(&self, repo: &RepoName, number: u64, since: Option<&str>) -> Result<Vec<Comment>, ApiError> {
        let path = format!("/issues/{number}/comments?per_page=100{}", since_part(since));
        Ok(self.pages(repo, &path, PAGES).await?.0)
    }

    /// The comments on lines of a pull request.
    pub async fn line_comments(
        &self,
        repo: &RepoName,
        number: u64,
        since: Option<&str>,
    ) -> Result<Vec<Comment>, ApiError> {
        let path = format!("/pulls/{number}/comments?per_page=100{}", since_part(since));
        Ok(self.pages(repo, &path, PAGES).await?.0)
    }

    pub async fn reviews(&self, repo: &RepoName, number: u64) -> Result<Vec<Comment>, ApiError> {
        Ok(self.pages(repo, &format!("/pulls/{number}/reviews?per_page=100"), PAGES).await?.0)
    }

    pub async fn say(&self, repo: &RepoName, number: u64, body: &str) -> Result<Spoken, ApiError> {
        let path = format!("/issues/{number}/comments");
        self.ask(repo, Method::POST, &path, Some(&json!({ "body": body }))).await?.json()
    }

    /// Says something else instead.
    pub async fn change(&self, repo: &RepoName, comment: u64, body: &str) -> Result<Spoken, ApiError> {
        let path = format!("/issues/comments/{comment}");
        self.ask(repo, Method::PATCH, &path, Some(&json!({ "body": body }))).await?.json()
    }

    /// Shows that something was seen (👀). There is no such thing for a review.
    pub async fn seen(&self, repo: &RepoName, number: u64, place: &Place) -> Result<(), ApiError> {
        let path = match place {
            Place::Body => format!("/issues/{number}/reactions"),
            Place::Comment { id } => format!("/issues/comments/{id}/reactions"),
            Place::Lines { id, .. } => format!("/pulls/comments/{id}/reactions"),
            Place::Review { .. } => return Ok(()),
        };
        self.ask(repo, Method::POST, &path, Some(&json!({ "content": "eyes" }))).await?;
        Ok(())
    }

    /// Issues and pull requests, the one that changed last first, if any changed since `etag`. The
    /// address is the same every time, or the tag would not hold.
    pub async fn changed_issues(
        &self,
        repo: &RepoName,
        page: u32,
        etag: Option<&str>,
    ) -> Result<Polled<Vec<Issue>>, ApiError> {
        self.poll(repo, &format!("/issues?state=all&{}", newest_first(page)), etag).await
    }

    /// The comments of all issues and pull requests, in the same way.
    pub async fn changed_comments(
        &self,
        repo: &RepoName,
        page: u32,
        etag: Option<&str>,
    ) -> Result<Polled<Vec<Comment>>, ApiError> {
        self.poll(repo, &format!("/issues/comments?{}", newest_first(page)), etag).await
    }

    /// The comments on lines of all pull requests, in the same way.
    pub async fn changed_line_comments(
        &self,
        repo: &RepoName,
        page: u32,
        etag: Option<&str>,
    ) -> Result<Polled<Vec<Comment>>, ApiError> {
        self.poll(repo, &format!("/pulls/comments?{}", newest_first(page)), etag).await
    }
}

fn since_part(since: Option<&str>) -> String {
    since.map(|since| format!("&since={}", escaped(since))).unwrap_or_default()
}

fn newest_first(page: u32) -> String {
    format!("sort=updated&direction=desc&per_page=100&page={page}")
}
