//! Checks who wrote and who last changed a text. Both accounts must be allowed to direct the agent.
//!
//! A webhook tells who changed a text. Polling does not; GraphQL does, and if it gives no answer, only a
//! text is accepted whose times say that it was never changed. They are in seconds, so a change within the
//! second in which the text was written is not noticed in that case.

use crate::github::adapter::GithubAdapter;
use crate::github::api::GithubClient;
use crate::github::inbound::access::AccessVerdict;
use crate::github::inbound::event::{EventText, TextEdit};
use crate::github::inbound::wire::GithubUser;
use crate::github::repo::RepoName;
use crate::github::worker::events::EventError;
use crate::retry::RetryAdvice;

impl GithubAdapter {
    /// Returns why a text does not direct the agent; `None` if it does.
    pub(crate) async fn text_refusal_reason(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        text: &EventText,
    ) -> Result<Option<String>, EventError> {
        if let Some(why) = self.account_refusal_reason(github, repo, "the author", text.author.as_ref()).await? {
            return Ok(Some(why));
        }
        if self.access_policy().allows_everybody() {
            return Ok(None);
        }
        let edit = match &text.edit {
            TextEdit::NotTold { unchanged } => match self.find_edit(github, repo, text, *unchanged).await? {
                EditLookup::Edit(edit) => edit,
                EditLookup::ChangedAgain => return Ok(Some("it was changed again since it was read".to_owned())),
            },
            told => told.clone(),
        };
        match edit {
            TextEdit::Original => Ok(None),
            TextEdit::By(editor) => self.account_refusal_reason(github, repo, "the last editor", editor.as_ref()).await,
            TextEdit::NotTold { .. } => {
                Ok(Some("it was changed, and GitHub does not tell by which account".to_owned()))
            }
        }
    }

    async fn account_refusal_reason(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        role: &str,
        user: Option<&GithubUser>,
    ) -> Result<Option<String>, EventError> {
        let login = user.map(|user| format!(" {}", user.login)).unwrap_or_default();
        match self.check_access(github, repo, user).await? {
            AccessVerdict::Allowed => Ok(None),
            AccessVerdict::Refused(why) => Ok(Some(format!("{role}{login} {why}"))),
            AccessVerdict::NotKnown => Err(EventError::Hopeless(format!("what {role}{login} may do is not known"))),
        }
    }

    /// Asks GitHub who changed a text that was found by polling.
    async fn find_edit(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        text: &EventText,
        unchanged: bool,
    ) -> Result<EditLookup, EventError> {
        let by_times = if unchanged { TextEdit::Original } else { TextEdit::NotTold { unchanged } };
        let Some(node) = text.node.as_deref() else { return Ok(EditLookup::Edit(by_times)) };
        match github.last_edits(repo, &[node]).await {
            Ok(found) => Ok(match found.into_iter().next().flatten() {
                // The stored text has no secrets.
                Some(found) if is_same_text(&self.conversations.redactor.clean_incoming(&found.body), &text.body) => {
                    EditLookup::Edit(found.edit)
                }
                Some(_) => EditLookup::ChangedAgain,
                // The text is gone, or we may not see it.
                None => EditLookup::Edit(TextEdit::NotTold { unchanged: false }),
            }),
            Err(error) if error.concerns_all() => Err(error.into()),
            Err(error) if unchanged || error.retry_advice() == RetryAdvice::Never => {
                tracing::warn!(%repo, %error, "editor of a text not looked up");
                Ok(EditLookup::Edit(by_times))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The result of asking GraphQL about a text that was found by polling.
enum EditLookup {
    Edit(TextEdit),
    /// The text changed again, and the editor of the new text says nothing about this one.
    ChangedAgain,
}

fn is_same_text(one: &str, other: &str) -> bool {
    one.replace("\r\n", "\n") == other.replace("\r\n", "\n")
}
