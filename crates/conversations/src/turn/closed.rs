//! A conversation was closed.

use grove_environments::cleanup::on_close::Closed;

use crate::replies;
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

impl Desk<'_> {
    pub(super) async fn closed(&self, merged: bool) -> Result<Ending, Broken> {
        Ok(match self.talks.isolation.on_conversation_closed(&self.reference(), merged).await? {
            // Whoever closed it does not wait for words about it.
            Closed::None | Closed::Shared { .. } | Closed::Removed(_) => Ending::silent(),
            Closed::Kept { environment, reason } => Ending::done(replies::kept(environment.branch.as_str(), &reason)),
        })
    }
}
