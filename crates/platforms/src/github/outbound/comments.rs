//! What is said, as comments.

use std::time::Duration;

use async_trait::async_trait;
use grove_conversations::delivery::outbox_sender::{Letter, NotShown, Platform};
use tokio::sync::watch;

use crate::github::api::{ApiError, Github, Retry};
use crate::github::inbound::classify::{GITHUB, Us};
use crate::github::inbound::marker::Marker;
use crate::github::inbound::mention::silenced;
use crate::github::repo::RepoName;
use crate::split::{Limit, split};

/// How often a growing answer is shown anew: GitHub allows 500 changes in an hour.
const PACE: Duration = Duration::from_secs(8);

/// How long it may take until we know who we are.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Comments {
    pub github: Github,
    pub streams: bool,
    pub us: watch::Receiver<Us>,
}

/// A comment that is there.
struct There {
    id: u64,
    part: usize,
    /// What it says, where that is known.
    body: Option<String>,
}

#[async_trait]
impl Platform for Comments {
    fn name(&self) -> &str {
        GITHUB
    }

    fn pace(&self) -> Option<Duration> {
        self.streams.then_some(PACE)
    }

    async fn show(&self, letter: &Letter<'_>) -> Result<String, NotShown> {
        let Some((repo, number)) = RepoName::of_conversation(letter.conversation) else {
            return Err(NotShown::Never(format!("`{}` is no issue", letter.conversation)));
        };
        let name = letter.name.to_string();
        let marker = |part: usize| {
            Marker::new(&name, part).ok_or_else(|| NotShown::Never(format!("`{name}` cannot be a marker")))
        };
        let limit = Limit::GITHUB.less(marker(9_999)?.length());
        let parts = split(&silenced(letter.text), limit);
        let there = self.there(letter, &repo, number, &name).await?;
        let mut ids = Vec::new();
        for (part, text) in (1..).zip(&parts) {
            let body = marker(part)?.put_on(text);
            let known = there.iter().find(|there| there.part == part);
            ids.push(self.put(&repo, number, known, &body).await?);
        }
        serde_json::to_string(&ids).map_err(|error| NotShown::Never(error.to_string()))
    }
}

impl Comments {
    /// What is there of a letter already: as it was noted, or found by its marker.
    async fn there(
        &self,
        letter: &Letter<'_>,
        repo: &RepoName,
        number: u64,
        name: &str,
    ) -> Result<Vec<There>, NotShown> {
        let noted: Vec<u64> = letter.shown_as.and_then(|ids| serde_json::from_str(ids).ok()).unwrap_or_default();
        if !letter.uncertain {
            return Ok((1..).zip(noted).map(|(part, id)| There { id, part, body: None }).collect());
        }
        let account = self.account().await?;
        let comments = self.github.comments(repo, number).await.map_err(|error| later(&error))?;
        // Everybody can write our marker.
        let ours = comments.into_iter().filter(|comment| comment.user.as_ref().is_some_and(|user| user.id == account));
        let found = ours.filter_map(|comment| {
            let body = comment.body?;
            let marker = Marker::of(&body).filter(|marker| marker.message == name)?;
            Some(There { id: comment.id, part: marker.part, body: Some(body) })
        });
        let mut found: Vec<There> = found.collect();
        for (part, id) in (1..).zip(noted) {
            if !found.iter().any(|there| there.part == part) {
                found.push(There { id, part, body: None });
            }
        }
        Ok(found)
    }

    /// The account that our words go out with.
    async fn account(&self) -> Result<u64, NotShown> {
        let mut us = self.us.clone();
        let known = tokio::time::timeout(PATIENCE, us.wait_for(|us| us.account.is_some())).await;
        let account = known.ok().and_then(|us| us.ok()?.account.as_ref().map(|account| account.id));
        let why = "who we are on GitHub is not known yet".to_owned();
        account.ok_or(NotShown::Later { after: None, why })
    }

    /// Changes a comment or makes one.
    async fn put(&self, repo: &RepoName, number: u64, there: Option<&There>, body: &str) -> Result<u64, NotShown> {
        if let Some(There { id, body: now, .. }) = there {
            let same = now.as_ref().is_some_and(|now| now.replace("\r\n", "\n").trim_end() == body.trim_end());
            if same {
                return Ok(*id);
            }
            match self.github.change(repo, *id, body).await {
                Ok(_) => return Ok(*id),
                // Somebody deleted it.
                Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(later(&error)),
            }
        }
        self.github.say(repo, number, body).await.map(|spoken| spoken.id).map_err(|error| later(&error))
    }
}

fn later(error: &ApiError) -> NotShown {
    let why = error.to_string();
    match error.retry() {
        Retry::After(after) => NotShown::Later { after: Some(after), why },
        Retry::Later => NotShown::Later { after: None, why },
        // Made, though nobody could read under which name: it is found by its marker.
        Retry::Never if error.may_have_happened() => NotShown::Later { after: None, why },
        Retry::Never => NotShown::Never(why),
    }
}
