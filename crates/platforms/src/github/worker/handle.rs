//! One event, from what GitHub told to the inbox.

use grove_model::Event;
use grove_store::RawEvent;

use crate::github::adapter::Adapter;
use crate::github::api::Github;
use crate::github::inbound::classify::{Asked, GITHUB, Look, look};
use crate::github::inbound::event::{Delivered, Happening, read};
use crate::github::worker::events::Stuck;
use crate::github::worker::routing::Home;

impl Adapter {
    /// Works on one event; what came of it, in a few words.
    pub(crate) async fn one(&self, github: &Github, event: &RawEvent) -> Result<String, Stuck> {
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
        if let Some(why) = self.refusal(github, repo, asked.text).await? {
            tracing::info!("refused in {}: {why}", repo.conversation(happening.thread.number));
            return Ok(format!("refused: {why}"));
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
}
