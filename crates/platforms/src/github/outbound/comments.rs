//! Posts answers as comments.

use std::time::Duration;

use async_trait::async_trait;
use grove_conversations::delivery::outbox_sender::{DeliveryError, OutgoingText, Platform};
use tokio::sync::watch;

use crate::github::api::{ApiError, GithubClient};
use crate::github::inbound::classify::{BotIdentity, GITHUB_PLATFORM};
use crate::github::inbound::marker::CommentMarker;
use crate::github::repo::RepoName;
use crate::mention::silence_mentions;
use crate::retry::RetryAdvice;
use crate::split::{MessageLimit, split_message};

/// The time to wait until our own account is known.
const ACCOUNT_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct CommentSender {
    pub github: GithubClient,
    /// The interval between updates of a draft.
    pub update_interval: Option<Duration>,
    pub us: watch::Receiver<BotIdentity>,
}

/// A comment that exists on GitHub.
struct ExistingComment {
    id: u64,
    part: usize,
    /// Its text, if it is known.
    body: Option<String>,
}

#[async_trait]
impl Platform for CommentSender {
    fn name(&self) -> &str {
        GITHUB_PLATFORM
    }

    fn draft_interval(&self) -> Option<Duration> {
        self.update_interval
    }

    async fn show_text(&self, letter: &OutgoingText<'_>) -> Result<String, DeliveryError> {
        let Some((repo, number)) = RepoName::of_conversation(letter.conversation) else {
            return Err(DeliveryError::Never(format!("`{}` is no issue", letter.conversation)));
        };
        let name = letter.name.to_string();
        let marker = |part: usize| {
            CommentMarker::new(&name, part).ok_or_else(|| DeliveryError::Never(format!("`{name}` cannot be a marker")))
        };
        let limit = MessageLimit::GITHUB.reduced_by(marker(9_999)?.added_length());
        let parts = split_message(&silence_mentions(letter.text), limit);
        let there = self.existing_comments(letter, &repo, number, &name).await?;
        let mut ids = Vec::new();
        for (part, text) in (1..).zip(&parts) {
            let body = marker(part)?.put_on(text);
            let known = there.iter().find(|there| there.part == part);
            ids.push(self.write_comment(&repo, number, known, &body).await?);
        }
        serde_json::to_string(&ids).map_err(|error| DeliveryError::Never(error.to_string()))
    }
}

impl CommentSender {
    /// Returns the existing comments of a text: those that were recorded, or found by their marker.
    async fn existing_comments(
        &self,
        letter: &OutgoingText<'_>,
        repo: &RepoName,
        number: u64,
        name: &str,
    ) -> Result<Vec<ExistingComment>, DeliveryError> {
        let noted: Vec<u64> = letter.shown_as.and_then(|ids| serde_json::from_str(ids).ok()).unwrap_or_default();
        if !letter.uncertain {
            return Ok((1..).zip(noted).map(|(part, id)| ExistingComment { id, part, body: None }).collect());
        }
        let account = self.bot_account_id().await?;
        let comments = self.github.list_comments(repo, number).await.map_err(|error| to_delivery_error(&error))?;
        // Any account can write our marker.
        let ours = comments.into_iter().filter(|comment| comment.user.as_ref().is_some_and(|user| user.id == account));
        let found = ours.filter_map(|comment| {
            let body = comment.body?;
            let marker = CommentMarker::from_comment(&body).filter(|marker| marker.message == name)?;
            Some(ExistingComment { id: comment.id, part: marker.part, body: Some(body) })
        });
        let mut found: Vec<ExistingComment> = found.collect();
        for (part, id) in (1..).zip(noted) {
            if !found.iter().any(|there| there.part == part) {
                found.push(ExistingComment { id, part, body: None });
            }
        }
        Ok(found)
    }

    /// Returns the id of the account that posts our comments.
    async fn bot_account_id(&self) -> Result<u64, DeliveryError> {
        let mut us = self.us.clone();
        let known = tokio::time::timeout(ACCOUNT_WAIT_TIMEOUT, us.wait_for(|us| us.account.is_some())).await;
        let account = known.ok().and_then(|us| us.ok()?.account.as_ref().map(|account| account.id));
        let why = "who we are on GitHub is not known yet".to_owned();
        account.ok_or(DeliveryError::Later { after: None, why })
    }

    /// Changes a comment or creates one.
    async fn write_comment(
        &self,
        repo: &RepoName,
        number: u64,
        there: Option<&ExistingComment>,
        body: &str,
    ) -> Result<u64, DeliveryError> {
        if let Some(ExistingComment { id, body: now, .. }) = there {
            let same = now.as_ref().is_some_and(|now| now.replace("\r\n", "\n").trim_end() == body.trim_end());
            if same {
                return Ok(*id);
            }
            match self.github.update_comment(repo, *id, body).await {
                Ok(_) => return Ok(*id),
                // The comment was deleted on GitHub.
                Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(to_delivery_error(&error)),
            }
        }
        self.github
            .create_comment(repo, number, body)
            .await
            .map(|spoken| spoken.id)
            .map_err(|error| to_delivery_error(&error))
    }
}

fn to_delivery_error(error: &ApiError) -> DeliveryError {
    let why = error.to_string();
    match error.retry_advice() {
        RetryAdvice::After(after) => DeliveryError::Later { after: Some(after), why },
        RetryAdvice::Later => DeliveryError::Later { after: None, why },
        // Created, but its id could not be read: it is found by its marker.
        RetryAdvice::Never if error.may_have_happened() => DeliveryError::Later { after: None, why },
        RetryAdvice::Never => DeliveryError::Never(why),
    }
}
