//! Collects the changes of a repository as events: mentions of us, pushes, closed threads.

use std::collections::hash_map::Entry;

use grove_model::{Environment, Moment};
use serde_json::Value;

use crate::github::adapter::GithubAdapter;
use crate::github::api::{ApiError, GithubClient};
use crate::github::inbound::classify::GITHUB_PLATFORM;
use crate::github::repo::RepoName;
use crate::github::worker::events::EventError;
use crate::github::worker::poll_events::{
    PolledEvent, PolledEventReader, ThreadKind, by_number, is_closed, is_pull, number_of, parse_moment,
};
use crate::retry::RetryAdvice;

/// The maximum number of pull requests whose reviews are requested.
const MAX_REVIEWED_PULLS: usize = 100;

/// Collects the changes of a repository.
pub(crate) struct ChangeCollector<'a> {
    pub adapter: &'a GithubAdapter,
    pub github: &'a GithubClient,
    pub repo: &'a RepoName,
    pub reader: PolledEventReader<'a>,
}

/// Threads that changed, and the time from which on changes count.
pub(crate) type ChangedThreads = (Vec<Value>, Moment);

impl ChangeCollector<'_> {
    pub async fn collect_events(
        &self,
        (issues, issues_from): &ChangedThreads,
        (pulls, pulls_from): &ChangedThreads,
        comments: &[Value],
        lines: &[Value],
    ) -> Result<Vec<PolledEvent>, EventError> {
        let calls = self.collect_mentions(issues, (pulls, *pulls_from), comments, lines).await?;
        let issues =
            issues.iter().filter(|issue| !is_pull(issue)).map(|issue| (issue, ThreadKind::Issue, *issues_from));
        let all = issues.chain(pulls.iter().map(|pull| (pull, ThreadKind::Pull, *pulls_from)));
        let (live, mut others) = (self.live_environments().await?, Vec::new());
        for (thread, kind, from) in all {
            let Some(number) = thread["number"].as_u64() else { continue };
            let here: Vec<&PolledEvent> = calls.iter().filter(|(at, _)| *at == number).map(|(_, news)| news).collect();
            if kind == ThreadKind::Pull
                && let Some(pushed) = self.reader.read_pushed(thread)
                && (!here.is_empty() || self.is_worked_on(number, thread["head"]["ref"].as_str(), &live).await?)
            {
                others.push(pushed);
            }
            // Also if no agent works on it yet: a waiting message may start the work.
            if let Some(closed) = self.reader.read_closed(thread, kind, from)
                && !self.was_called_since(&closed, &here).await?
            {
                others.push(closed);
            }
        }
        // A person who closes a thread with a comment wants the comment handled first, and both have the
        // same time.
        Ok(calls.into_iter().map(|(_, news)| news).chain(others).collect())
    }

    /// Tells whether a mention after the closing was already accepted: then the work is not over.
    async fn was_called_since(&self, closed: &PolledEvent, calls: &[&PolledEvent]) -> Result<bool, EventError> {
        for call in calls.iter().filter(|call| call.at > closed.at) {
            if self.adapter.conversations.store.was_heard(&call.key).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the mentions of us, with the number of the thread.
    async fn collect_mentions(
        &self,
        issues: &[Value],
        (pulls, pulls_from): (&[Value], Moment),
        comments: &[Value],
        lines: &[Value],
    ) -> Result<Vec<(u64, PolledEvent)>, EventError> {
        let (mut known_issues, mut known_pulls) = (by_number(issues), by_number(pulls));
        let mut calls = Vec::new();
        for (number, issue) in known_issues.iter().filter(|(_, issue)| !is_pull(issue)) {
            calls.extend(self.reader.read_text(issue, ThreadKind::Issue).map(|news| (*number, news)));
        }
        for (number, pull) in &known_pulls {
            calls.extend(self.reader.read_text(pull, ThreadKind::Pull).map(|news| (*number, news)));
        }
        for comment in comments.iter().filter(|comment| self.reader.is_called(comment)) {
            let Some(number) = number_of(comment) else { continue };
            if let Entry::Vacant(unknown) = known_issues.entry(number) {
                let Some(issue) = or_skip(self.github.raw_issue(self.repo, number).await)? else { continue };
                unknown.insert(issue);
            }
            calls.extend(self.reader.read_comment(&known_issues[&number], comment).map(|news| (number, news)));
        }
        for comment in lines.iter().filter(|comment| self.reader.is_called(comment)) {
            let Some(number) = number_of(comment) else { continue };
            if let Entry::Vacant(unknown) = known_pulls.entry(number) {
                let Some(pull) = or_skip(self.github.raw_pull(self.repo, number).await)? else { continue };
                unknown.insert(pull);
            }
            calls.extend(self.reader.read_line_comment(&known_pulls[&number], comment).map(|news| (number, news)));
        }
        calls.extend(self.collect_review_mentions(pulls, pulls_from).await?);
        Ok(calls)
    }

    /// Returns mentions in reviews. GitHub has no list of all reviews: those of changed pull requests are
    /// requested, unless they were closed before.
    async fn collect_review_mentions(
        &self,
        pulls: &[Value],
        from: Moment,
    ) -> Result<Vec<(u64, PolledEvent)>, EventError> {
        let mut calls = Vec::new();
        let is_over = |pull: &Value| is_closed(pull) && parse_moment(pull, "closed_at").is_some_and(|at| at < from);
        let open: Vec<&Value> = pulls.iter().filter(|pull| !is_over(pull)).collect();
        if open.len() > MAX_REVIEWED_PULLS {
            tracing::warn!(repo = %self.repo, "too many changed pull requests, some reviews are left out");
        }
        for pull in open.into_iter().take(MAX_REVIEWED_PULLS) {
            let Some(number) = pull["number"].as_u64() else { continue };
            for review in or_skip(self.github.raw_reviews(self.repo, number).await)?.unwrap_or_default() {
                let is_new = parse_moment(&review, "submitted_at").is_some_and(|at| at >= self.reader.watched_since);
                if is_new && self.reader.is_called(&review) {
                    calls.extend(self.reader.read_review(pull, &review).map(|news| (number, news)));
                }
            }
        }
        Ok(calls)
    }

    /// Tells whether a conversation or one of these environments belongs to a pull request.
    async fn is_worked_on(&self, number: u64, branch: Option<&str>, live: &[Environment]) -> Result<bool, EventError> {
        let is_about = |environment: &Environment| {
            environment.related_prs.contains(&number) || branch == Some(environment.branch.as_str())
        };
        if live.iter().any(is_about) {
            return Ok(true);
        }
        let conversations =
            self.adapter.conversations.store.conversations_called(&self.full_name().conversation_id(number)).await?;
        Ok(conversations.iter().any(|conversation| conversation.platform == GITHUB_PLATFORM))
    }

    /// Returns the live environments of the repository.
    async fn live_environments(&self) -> Result<Vec<Environment>, EventError> {
        let Some(codebase) = self.adapter.codebase_of(&self.full_name()).await? else { return Ok(Vec::new()) };
        Ok(self.adapter.conversations.store.list_environments(codebase.id, false).await?)
    }

    /// Returns the name as GitHub spells it, which may differ from the requested spelling.
    fn full_name(&self) -> RepoName {
        let full_name = self.reader.repository["full_name"].as_str().and_then(RepoName::parse);
        full_name.unwrap_or_else(|| self.repo.clone())
    }
}

/// Returns `None` for an item that was deleted after the list was made, or that we may not see.
fn or_skip<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Err(error) if error.retry_advice() == RetryAdvice::Never => {
            tracing::info!(%error, "polled item skipped");
            Ok(None)
        }
        other => other.map(Some),
    }
}
