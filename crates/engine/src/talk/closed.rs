//! A conversation was closed.

use super::Desk;
use super::turn::{Broken, Ending};
use crate::cleanup::Closed;
use crate::reply_text;

impl Desk<'_> {
    pub(super) async fn closed(&self, merged: bool) -> Result<Ending, Broken> {
        Ok(match self.talks.isolation.on_conversation_closed(&self.reference(), merged).await? {
            // Whoever closed it does not wait for words about it.
            Closed::None | Closed::Shared { .. } | Closed::Removed(_) => Ending::silent(),
            Closed::Kept { environment, reason } => {
                Ending::done(reply_text::kept(environment.branch.as_str(), &reason))
            }
        })
    }
}
