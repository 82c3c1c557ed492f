//! One event, from what GitHub told to the inbox.

use std::sync::PoisonError;
use std::time::Instant;

use grove_model::Event;
use grove_store::RawEvent;

use super::place::Home;
use super::work::Stuck;
use super::{Adapter, BELIEVED};
use crate::github::access::{Permission, Verdict};
use crate::github::api::{ApiError, Github, Retry};
use crate::github::context::{Background, Outsiders, Remark};
use crate::github::event::{Delivered, Happening, Place, Text, read};
use crate::github::marker::Marker;
use crate::github::repo::RepoName;
use crate::github::translate::{Asked, Facts, GITHUB, Look, look};
use crate::github::wire::{Comment, User};

/// How much of what was said before is looked at; the context is bounded anyway.
const REMARKS: usize = 40;

/// After so many tries the agent goes without what GitHub does not tell.
const PATIENCE: i64 = 5;

impl Adapter {
    /// Works on one event; what came of it, in a few words.
    pub(super) async fn one(&self, github: &Github, event: &RawEvent) -> Result<String, Stuck> {
        let delivered = read(&event.kind, event.body.as_bytes()).map_err(|error| Stuck::Hopeless(error.to_string()))?;
        let Delivered::Happened(happening) = delivered else { return Ok("nothing to do".to_owned()) };
        if let Some(installation) = happening.installation {
            github.seen_by(&happening.repo.name, installation)?;
        }
        let home = self.home_of(&happening.repo.name).await?;
        if let Home::Known(codebase) = &home {
            self.told_of_pull(&happening, codebase).await?;
        }
        match look(&happening, &self.us()) {
            Look::Ignored(why) => Ok(format!("ignored: {why}")),
            Look::Closed(incoming) => {
                let known = self.talks.store.conversations_called(&incoming.conversation).await?;
                if !known.iter().any(|conversation| conversation.platform == GITHUB) {
                    return Ok("closed, and nobody worked on it".to_owned());
                }
                self.talks.accept(&incoming).await?;
                Ok("closed".to_owned())
            }
            Look::Asked(asked) => self.asked(github, &happening, &asked, home, event.tries).await,
        }
    }

    async fn asked(
        &self,
        github: &Github,
        happening: &Happening,
        asked: &Asked<'_>,
        home: Home,
        tries: i64,
    ) -> Result<String, Stuck> {
        let repo = &happening.repo.name;
        // Nobody needs to be asked about it again.
        if self.talks.store.was_heard(&asked.key()).await? {
            return Ok("taken before".to_owned());
        }
        if let Home::Refused(why) = home {
            return Ok(format!("refused: {why}"));
        }
        match self.verdict(github, repo, asked.author()).await? {
            Verdict::Allowed => {}
            Verdict::Refused(why) => return Ok(format!("refused: {why}")),
            Verdict::NotKnown => return Err(Stuck::Hopeless("whether they may is not known".to_owned())),
        }
        let facts = self.facts(github, happening, asked, tries).await?;
        let mut incoming = asked.incoming(&facts).map_err(|error| Stuck::Hopeless(error.to_string()))?;
        let codebase = match home {
            Home::Known(codebase) => Some(codebase),
            Home::New(repository) => {
                if let Event::Message { hints, .. } = &mut incoming.event {
                    hints.repository = Some(Box::new(repository));
                }
                None
            }
            Home::Refused(_) => None,
        };
        let accepted = self.talks.accept_about(&incoming, codebase.as_deref()).await?;
        if accepted.repeated {
            return Ok("taken before".to_owned());
        }
        // Only a sign.
        if let Err(error) = github.seen(repo, happening.thread.number, &asked.text.place).await {
            tracing::info!("that something was seen could not be shown: {error}");
        }
        Ok("taken".to_owned())
    }

    /// Whether somebody may direct the agent; where GitHub must be asked and does not answer, that is an
    /// error, never a yes.
    async fn verdict(&self, github: &Github, repo: &RepoName, author: Option<&User>) -> Result<Verdict, ApiError> {
        let known = self.access.of(author, None);
        let (Verdict::NotKnown, Some(author)) = (known, author) else { return Ok(known) };
        let permission = self.permission(github, repo, author).await?;
        Ok(self.access.of(Some(author), Some(permission)))
    }

    async fn permission(&self, github: &Github, repo: &RepoName, user: &User) -> Result<Permission, ApiError> {
        let key = (repo.to_string().to_lowercase(), user.id);
        let known = self.permissions.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some((permission, _)) = known.filter(|(_, asked)| asked.elapsed() < BELIEVED) {
            return Ok(permission);
        }
        let permission = github.permission(repo, &user.login).await?;
        let mut all = self.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, asked)| asked.elapsed() < BELIEVED);
        all.insert(key, (permission, Instant::now()));
        Ok(permission)
    }

    /// What the agent should know, and what decides where it works.
    async fn facts(
        &self,
        github: &Github,
        happening: &Happening,
        asked: &Asked<'_>,
        tries: i64,
    ) -> Result<Facts, Stuck> {
        let (repo, thread) = (&happening.repo.name, &happening.thread);
        let outsiders = if self.settings.allow_all { Outsiders::Quoted } else { Outsiders::LeftOut };
        let pull = if asked.wants_pull() { Some(github.pull(repo, thread.number).await?) } else { None };
        let mut background = Background {
            opened_by_allowed: self.verdict(github, repo, thread.author.as_ref()).await? == Verdict::Allowed,
            ..Background::default()
        };
        background.remarks =
            or_without(self.remarks(github, repo, thread.number, asked.text).await, "was said", tries)?;
        let mut linked = Vec::new();
        if thread.is_pull() {
            // The text alone counts then.
            linked = github.closes(repo, thread.number).await.unwrap_or_else(|error| {
                tracing::info!("which issues {repo}#{} closes is not known: {error}", thread.number);
                Vec::new()
            });
            let files = or_without(github.files(repo, thread.number).await, "is changed", tries)?;
            background.more_files = usize::from(files.more);
            background.files = files.files;
        }
        Ok(Facts { pull, linked, background, outsiders })
    }

    /// What was said before, with whether its authors may direct the agent.
    async fn remarks(
        &self,
        github: &Github,
        repo: &RepoName,
        number: u64,
        text: &Text,
    ) -> Result<Vec<Remark>, ApiError> {
        let mut comments = github.comments(repo, number).await?;
        let own = match &text.place {
            Place::Comment { id } => Some(*id),
            Place::Body | Place::Review { .. } | Place::Lines { .. } => None,
        };
        let before = |comment: &Comment| Some(comment.id) != own && comment.created_at <= text.created_at;
        comments.retain(|comment| before(comment) || text.created_at.is_none());
        let skip = comments.len().saturating_sub(REMARKS);
        let mut remarks = Vec::new();
        for comment in comments.into_iter().skip(skip) {
            let body = comment.body.unwrap_or_default();
            let us = self.us();
            let ours = us.account.is_some()
                && us.account.as_ref().map(|us| us.id) == comment.user.as_ref().map(|user| user.id);
            let allowed = (ours && Marker::of(&body).is_some())
                || self.verdict(github, repo, comment.user.as_ref()).await? == Verdict::Allowed;
            let author = comment.user.map(|user| user.login).unwrap_or_else(|| "ghost".to_owned());
            remarks.push(Remark { author, at: comment.created_at.unwrap_or_default(), body, allowed });
        }
        Ok(remarks)
    }
}

/// What the agent can do without is left out where GitHub does not tell it, however often it is asked.
fn or_without<T: Default>(answer: Result<T, ApiError>, what: &str, tries: i64) -> Result<T, ApiError> {
    let hopeless = |error: &ApiError| match error.retry() {
        Retry::Never => true,
        Retry::Later => tries >= PATIENCE,
        Retry::After(_) => false,
    };
    match answer {
        Err(error) if hopeless(&error) => {
            tracing::warn!("what {what} is not told to the agent: {error}");
            Ok(T::default())
        }
        other => other,
    }
}
