//! Issues, and what is said there.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::github::api::Github;
use crate::github::api::error::ApiError;
use crate::github::api::send::Polled;
use crate::github::inbound::event::Place;
use crate::github::inbound::wire::{Comment, Issue};
use crate::github::repo::RepoName;

/// A comment that we made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Spoken {
    pub id: u64,
    pub html_url: Option<String>,
}

/// What is asked for again and again, of a whole repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Also pull requests, as issues.
    Issues,
    Pulls,
    Comments,
    /// Comments on lines of pull requests.
    Lines,
}

impl List {
    pub fn name(self) -> &'static str {
        match self {
            List::Issues => "issues",
            List::Pulls => "pulls",
            List::Comments => "comments",
            List::Lines => "lines",
        }
    }

    fn path(self) -> &'static str {
        match self {
            List::Issues => "/issues?state=all&",
            List::Pulls => "/pulls?state=all&",
            List::Comments => "/issues/comments?",
            List::Lines => "/pulls/comments?",
        }
    }
}

/// How many pages of a hundred are read of what was said in a thread.
const PAGES: usize = 30;

impl Github {
    pub async fn issue(&self, repo: &RepoName, number: u64) -> Result<Issue, ApiError> {
        self.get(repo, &format!("/issues/{number}")).await?.json()
    }

    /// What was said in an issue or pull request, the oldest first.
    pub async fn comments(&self, repo: &RepoName, number: u64) -> Result<Vec<Comment>, ApiError> {
        Ok(self.pages(repo, &format!("/issues/{number}/comments?per_page=100"), PAGES).await?.0)
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

    /// A page of a list of the whole repository, what changed last first, if it changed since `etag`. The
    /// address is the same every time, or the tag would not hold.
    pub async fn changed(
        &self,
        repo: &RepoName,
        list: List,
        page: u32,
        etag: Option<&str>,
    ) -> Result<Polled<Vec<Value>>, ApiError> {
        self.poll(repo, &format!("{}sort=updated&direction=desc&per_page=100&page={page}", list.path()), etag).await
    }

    /// An issue word for word, as a webhook has it.
    pub async fn raw_issue(&self, repo: &RepoName, number: u64) -> Result<Value, ApiError> {
        self.get(repo, &format!("/issues/{number}")).await?.json()
    }

    /// The reviews of a pull request in the same way.
    pub async fn raw_reviews(&self, repo: &RepoName, number: u64) -> Result<Vec<Value>, ApiError> {
        Ok(self.pages(repo, &format!("/pulls/{number}/reviews?per_page=100"), PAGES).await?.0)
    }
}
