//! What changed in a repository, as news: where somebody calls us, what was pushed, what was closed.

use std::collections::hash_map::Entry;

use grove_model::{Environment, Moment};
use serde_json::Value;

use crate::github::adapter::Adapter;
use crate::github::api::{ApiError, Github, Retry};
use crate::github::inbound::classify::GITHUB;
use crate::github::repo::RepoName;
use crate::github::worker::events::Stuck;
use crate::github::worker::poll_events::{News, Reader, Thread, by_number, is_closed, is_pull, moment, number_of};

/// How many pull requests are asked for their reviews at most.
const REVIEWED: usize = 100;

/// Finds out the rest of what changed in a repository.
pub(crate) struct Asking<'a> {
    pub adapter: &'a Adapter,
    pub github: &'a Github,
    pub repo: &'a RepoName,
    pub reader: Reader<'a>,
}

/// Threads that changed, and from when on.
pub(crate) type Threads = (Vec<Value>, Moment);

impl Asking<'_> {
    pub async fn news(
        &self,
        (issues, issues_from): &Threads,
        (pulls, pulls_from): &Threads,
        comments: &[Value],
        lines: &[Value],
    ) -> Result<Vec<News>, Stuck> {
        let calls = self.calls(issues, (pulls, *pulls_from), comments, lines).await?;
        let issues = issues.iter().filter(|issue| !is_pull(issue)).map(|issue| (issue, Thread::Issue, *issues_from));
        let all = issues.chain(pulls.iter().map(|pull| (pull, Thread::Pull, *pulls_from)));
        let (live, mut others) = (self.live().await?, Vec::new());
        for (thread, kind, from) in all {
            let Some(number) = thread["number"].as_u64() else { continue };
            let here: Vec<&News> = calls.iter().filter(|(at, _)| *at == number).map(|(_, news)| news).collect();
            if kind == Thread::Pull
                && let Some(pushed) = self.reader.pushed(thread)
                && (!here.is_empty() || self.is_worked_on(number, thread["head"]["ref"].as_str(), &live).await?)
            {
                others.push(pushed);
            }
            // Also where nobody works yet: what waits before it may begin.
            if let Some(closed) = self.reader.closed(thread, kind, from)
                && !self.was_called_since(&closed, &here).await?
            {
                others.push(closed);
            }
        }
        // Whoever closes with a comment wants that worked on first, and it has the same time.
        Ok(calls.into_iter().map(|(_, news)| news).chain(others).collect())
    }

    /// Whether somebody called us after that, and was heard already: what they want is not over.
    async fn was_called_since(&self, closed: &News, calls: &[&News]) -> Result<bool, Stuck> {
        for call in calls.iter().filter(|call| call.at > closed.at) {
            if self.adapter.talks.store.was_heard(&call.key).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where somebody calls us, with the number of the thread.
    async fn calls(
        &self,
        issues: &[Value],
        (pulls, pulls_from): (&[Value], Moment),
        comments: &[Value],
        lines: &[Value],
    ) -> Result<Vec<(u64, News)>, Stuck> {
        let (mut known_issues, mut known_pulls) = (by_number(issues), by_number(pulls));
        let mut calls = Vec::new();
        for (number, issue) in known_issues.iter().filter(|(_, issue)| !is_pull(issue)) {
            calls.extend(self.reader.text(issue, Thread::Issue).map(|news| (*number, news)));
        }
        for (number, pull) in &known_pulls {
            calls.extend(self.reader.text(pull, Thread::Pull).map(|news| (*number, news)));
        }
        for comment in comments.iter().filter(|comment| self.reader.is_called(comment)) {
            let Some(number) = number_of(comment) else { continue };
            if let Entry::Vacant(unknown) = known_issues.entry(number) {
                let Some(issue) = or_skip(self.github.raw_issue(self.repo, number).await)? else { continue };
                unknown.insert(issue);
            }
            calls.extend(self.reader.comment(&known_issues[&number], comment).map(|news| (number, news)));
        }
        for comment in lines.iter().filter(|comment| self.reader.is_called(comment)) {
            let Some(number) = number_of(comment) else { continue };
            if let Entry::Vacant(unknown) = known_pulls.entry(number) {
                let Some(pull) = or_skip(self.github.raw_pull(self.repo, number).await)? else { continue };
                unknown.insert(pull);
            }
            calls.extend(self.reader.lines(&known_pulls[&number], comment).map(|news| (number, news)));
        }
        calls.extend(self.reviews(pulls, pulls_from).await?);
        Ok(calls)
    }

    /// There is no list of all reviews: those of pull requests that changed are asked for, unless they
    /// were over before.
    async fn reviews(&self, pulls: &[Value], from: Moment) -> Result<Vec<(u64, News)>, Stuck> {
        let mut calls = Vec::new();
        let is_over = |pull: &Value| is_closed(pull) && moment(pull, "closed_at").is_some_and(|at| at < from);
        let open: Vec<&Value> = pulls.iter().filter(|pull| !is_over(pull)).collect();
        if open.len() > REVIEWED {
            tracing::warn!("{} has more changed pull requests than are asked for their reviews", self.repo);
        }
        for pull in open.into_iter().take(REVIEWED) {
            let Some(number) = pull["number"].as_u64() else { continue };
            for review in or_skip(self.github.raw_reviews(self.repo, number).await)?.unwrap_or_default() {
                let is_new = moment(&review, "submitted_at").is_some_and(|at| at >= self.reader.watched_since);
                if is_new && self.reader.is_called(&review) {
                    calls.extend(self.reader.review(pull, &review).map(|news| (number, news)));
                }
            }
        }
        Ok(calls)
    }

    /// Whether there is a conversation about a pull request, or one of these environments is.
    async fn is_worked_on(&self, number: u64, branch: Option<&str>, live: &[Environment]) -> Result<bool, Stuck> {
        let is_about = |environment: &Environment| {
            environment.related_prs.contains(&number) || branch == Some(environment.branch.as_str())
        };
        if live.iter().any(is_about) {
            return Ok(true);
        }
        let conversations =
            self.adapter.talks.store.conversations_called(&self.full_name().conversation(number)).await?;
        Ok(conversations.iter().any(|conversation| conversation.platform == GITHUB))
    }

    /// The environments of the repository.
    async fn live(&self) -> Result<Vec<Environment>, Stuck> {
        let Some(codebase) = self.adapter.codebase_of(&self.full_name()).await? else { return Ok(Vec::new()) };
        Ok(self.adapter.talks.store.environments(codebase.id, false).await?)
    }

    /// As GitHub spells it, whoever asks for it.
    fn full_name(&self) -> RepoName {
        let full_name = self.reader.repository["full_name"].as_str().and_then(RepoName::parse);
        full_name.unwrap_or_else(|| self.repo.clone())
    }
}

/// `None`: it was there when the list was made and is no more, or is not for us.
fn or_skip<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Err(error) if error.retry() == Retry::Never => {
            tracing::info!("passed over: {error}");
            Ok(None)
        }
        other => other.map(Some),
    }
}
