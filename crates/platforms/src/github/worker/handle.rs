//! Handles one event, from the stored payload to the inbox.

use grove_model::IncomingPayload;
use grove_store::RawEvent;

use crate::github::adapter::GithubAdapter;
use crate::github::api::GithubClient;
use crate::github::inbound::classify::{GITHUB_PLATFORM, Mention, Relevance, classify_event};
use crate::github::inbound::event::{GithubEvent, ParsedDelivery, parse_delivery};
use crate::github::worker::events::EventError;
use crate::github::worker::routing::CodebaseTarget;

impl GithubAdapter {
    /// Handles one event, and returns the result in a few words.
    #[tracing::instrument(name = "github_event", skip_all, fields(event = %raw.id, delivery = raw.delivery, kind = raw.kind))]
    pub(crate) async fn process_event(&self, github: &GithubClient, raw: &RawEvent) -> Result<String, EventError> {
        let delivered =
            parse_delivery(&raw.kind, raw.body.as_bytes()).map_err(|error| EventError::Hopeless(error.to_string()))?;
        let ParsedDelivery::Happened(event) = delivered else { return Ok("nothing to do".to_owned()) };
        if let Some(installation) = event.installation {
            github.seen_by(&event.repo.name, installation)?;
        }
        let home = self.home_of(&event.repo.name).await?;
        if let CodebaseTarget::Known(codebase) = &home {
            self.told_of_pull(&event, codebase).await?;
        }
        match classify_event(&event, &self.bot_identity()) {
            Relevance::Ignored(why) => Ok(format!("ignored: {why}")),
            Relevance::Closed(incoming) => {
                let known = self.conversations.store.conversations_called(&incoming.conversation).await?;
                if !known.iter().any(|conversation| conversation.platform == GITHUB_PLATFORM) {
                    return Ok("closed, and no work was done on it".to_owned());
                }
                self.conversations.accept_incoming(&incoming).await?;
                Ok("closed".to_owned())
            }
            Relevance::Asked(asked) => self.handle_mention(github, &event, &asked, home, raw.tries).await,
        }
    }

    async fn handle_mention(
        &self,
        github: &GithubClient,
        event: &GithubEvent,
        asked: &Mention<'_>,
        home: CodebaseTarget,
        tries: i64,
    ) -> Result<String, EventError> {
        let repo = &event.repo.name;
        // The inbox already has this message: nothing needs to be looked up again.
        if self.conversations.store.was_heard(&asked.deduplication_key()).await? {
            return Ok("taken before".to_owned());
        }
        if let CodebaseTarget::Refused(why) = home {
            return Ok(format!("refused: {why}"));
        }
        if let Some(why) = self.text_refusal_reason(github, repo, asked.text).await? {
            tracing::info!(conversation = repo.conversation_id(event.thread.number), reason = why, "mention refused");
            return Ok(format!("refused: {why}"));
        }
        let facts = self.gather_facts(github, event, asked, tries).await?;
        let mut incoming = asked.to_incoming(&facts).map_err(|error| EventError::Hopeless(error.to_string()))?;
        let codebase = match home {
            CodebaseTarget::Known(codebase) => Some(codebase),
            CodebaseTarget::New(repository) => {
                if let IncomingPayload::Message { hints, .. } = &mut incoming.event {
                    hints.repository = Some(Box::new(repository));
                }
                None
            }
            CodebaseTarget::Refused(_) => None,
        };
        let accepted = self.conversations.accept_about(&incoming, codebase.as_deref()).await?;
        if accepted.repeated {
            return Ok("taken before".to_owned());
        }
        // The reaction is optional.
        if let Err(error) = github.add_seen_reaction(repo, event.thread.number, &asked.text.place).await {
            tracing::info!(%error, "reaction not added");
        }
        Ok("taken".to_owned())
    }
}
