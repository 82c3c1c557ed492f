//! Words count as those of two accounts: the one that wrote them and the one that changed them last. Both
//! have to be allowed to direct the agent.
//!
//! A webhook tells who changed a text. What was found by asking does not; GraphQL does, and where that gives
//! no answer only a text is taken whose times say that it was never changed. They are in seconds: somebody
//! who changes a text within the second in which it was written goes unseen then.

use crate::github::adapter::Adapter;
use crate::github::api::{Github, Retry};
use crate::github::inbound::access::Verdict;
use crate::github::inbound::event::{Edit, Text};
use crate::github::inbound::wire::User;
use crate::github::repo::RepoName;
use crate::github::worker::events::Stuck;

impl Adapter {
    /// Says why the words of a text do not direct the agent; `None` if they do.
    pub(crate) async fn refusal(&self, github: &Github, repo: &RepoName, text: &Text) -> Result<Option<String>, Stuck> {
        if let Some(why) = self.refused(github, repo, "the author", text.author.as_ref()).await? {
            return Ok(Some(why));
        }
        if self.access.allows_everybody() {
            return Ok(None);
        }
        let edit = match &text.edit {
            Edit::NotTold { unchanged } => match self.find_edit(github, repo, text, *unchanged).await? {
                Found::Edit(edit) => edit,
                Found::ChangedAgain => return Ok(Some("it was changed again since it was read".to_owned())),
            },
            told => told.clone(),
        };
        match edit {
            Edit::Original => Ok(None),
            Edit::By(editor) => self.refused(github, repo, "the last editor", editor.as_ref()).await,
            Edit::NotTold { .. } => Ok(Some("it was changed, and GitHub does not tell by which account".to_owned())),
        }
    }

    async fn refused(
        &self,
        github: &Github,
        repo: &RepoName,
        role: &str,
        user: Option<&User>,
    ) -> Result<Option<String>, Stuck> {
        let login = user.map(|user| format!(" {}", user.login)).unwrap_or_default();
        match self.verdict(github, repo, user).await? {
            Verdict::Allowed => Ok(None),
            Verdict::Refused(why) => Ok(Some(format!("{role}{login} {why}"))),
            Verdict::NotKnown => Err(Stuck::Hopeless(format!("what {role}{login} may do is not known"))),
        }
    }

    /// Asks GitHub who changed a text that was found by asking.
    async fn find_edit(&self, github: &Github, repo: &RepoName, text: &Text, unchanged: bool) -> Result<Found, Stuck> {
        let by_times = if unchanged { Edit::Original } else { Edit::NotTold { unchanged } };
        let Some(node) = text.node.as_deref() else { return Ok(Found::Edit(by_times)) };
        match github.last_edits(repo, &[node]).await {
            Ok(found) => Ok(match found.into_iter().next().flatten() {
                // What was kept of it has no secrets.
                Some(found) if is_same_text(&self.talks.redactor.clean_incoming(&found.body), &text.body) => {
                    Found::Edit(found.edit)
                }
                Some(_) => Found::ChangedAgain,
                // It is gone, or is not shown to us.
                None => Found::Edit(Edit::NotTold { unchanged: false }),
            }),
            Err(error) if error.concerns_all() => Err(error.into()),
            Err(error) if unchanged || error.retry() == Retry::Never => {
                tracing::warn!("which account changed a text in {repo} is not known: {error}");
                Ok(Found::Edit(by_times))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What GraphQL says of a text that was found by asking.
enum Found {
    Edit(Edit),
    /// The text is another one by now, whose editor says nothing of this one.
    ChangedAgain,
}

fn is_same_text(one: &str, other: &str) -> bool {
    one.replace("\r\n", "\n") == other.replace("\r\n", "\n")
}
