//! Looks up the context of a thread that the agent needs and may see.

use std::collections::HashMap;

use crate::github::adapter::GithubAdapter;
use crate::github::api::{ApiError, GithubClient, LastEdit};
use crate::github::inbound::classify::{Mention, MentionFacts};
use crate::github::inbound::context::{EarlierComment, ThreadBackground};
use crate::github::inbound::event::{EventText, EventThread, GithubEvent, TextEdit, TextPlace};
use crate::github::inbound::wire::CommentPayload;
use crate::github::repo::RepoName;
use crate::github::worker::events::EventError;
use crate::retry::RetryAdvice;

/// The number of earlier comments that are looked up; the size of the context is limited anyway.
const MAX_EARLIER_COMMENTS: usize = 40;

/// After this many attempts the agent runs without the facts that GitHub does not return.
const MAX_LOOKUP_ATTEMPTS: i64 = 5;

/// After this many attempts the agent runs without texts whose last editor GitHub does not return.
const MAX_EDITOR_LOOKUP_ATTEMPTS: i64 = 2;

/// The last editors of texts.
enum LastEditors {
    /// By GraphQL node id of the text.
    Found(HashMap<String, LastEdit>),
    /// GitHub does not support such queries.
    NotSupported,
    /// GitHub does not answer at the moment.
    NotAnswered,
}

impl GithubAdapter {
    /// Looks up the context for the agent, and the facts that decide where it works.
    pub(crate) async fn gather_facts(
        &self,
        github: &GithubClient,
        event: &GithubEvent,
        asked: &Mention<'_>,
        tries: i64,
    ) -> Result<MentionFacts, EventError> {
        let (repo, thread) = (&event.repo.name, &event.thread);
        let pull = if asked.wants_pull() { Some(github.fetch_pull(repo, thread.number).await?) } else { None };
        let mut background = self.gather_background(github, repo, thread, asked.text, tries).await?;
        let mut linked = Vec::new();
        if thread.is_pull() {
            // Then only the text of the pull request counts.
            linked = github.list_closing_issues(repo, thread.number).await.unwrap_or_else(|error| {
                tracing::info!(%repo, number = thread.number, %error, "closing issues not looked up");
                Vec::new()
            });
            background.files =
                or_without(github.list_changed_files(repo, thread.number).await, "changed files", tries)?;
        }
        Ok(MentionFacts { pull, linked, background })
    }

    async fn gather_background(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        thread: &EventThread,
        text: &EventText,
        tries: i64,
    ) -> Result<ThreadBackground, EventError> {
        let comments = or_without(comments_before(github, repo, thread.number, text).await, "comments", tries)?;
        let (title, body) = (Some(thread.title.clone()), Some(thread.body.clone()));
        if self.access_policy().allows_everybody() {
            let remarks = comments.into_iter().map(|comment| to_earlier_comment(comment, true)).collect();
            return Ok(ThreadBackground { shows_opener: true, title, body, remarks, ..ThreadBackground::default() });
        }
        let shows_opener = self.is_trusted(github, repo, thread.author.as_ref()).await?;
        // Requested only where it makes a difference.
        let is_as_opened = text.place == TextPlace::Body && text.edit == TextEdit::Original;
        let mut nodes: Vec<&str> = Vec::new();
        nodes.extend(thread.node.as_deref().filter(|_| shows_opener && !is_as_opened));
        let mut by_trusted = Vec::new();
        for comment in &comments {
            let is_trusted = self.is_trusted(github, repo, comment.user.as_ref()).await?;
            nodes.extend(comment.node_id.as_deref().filter(|_| is_trusted));
            by_trusted.push(is_trusted);
        }
        let mut editors = find_editors(github, repo, &nodes, tries).await?;
        let mut background = ThreadBackground { shows_opener, ..ThreadBackground::default() };
        if shows_opener {
            (background.title, background.body) = match (&mut editors, &thread.node) {
                _ if is_as_opened => (title, body),
                (LastEditors::Found(found), Some(node)) => match found.remove(node) {
                    Some(LastEdit { body, edit, title: Some(title) }) => (
                        self.is_edit_trusted(github, repo, &title.edit).await?.then_some(title.title),
                        self.is_edit_trusted(github, repo, &edit).await?.then_some(body),
                    ),
                    _ => (None, None),
                },
                (LastEditors::NotSupported, _) | (LastEditors::Found(_), None) => (title, body),
                (LastEditors::NotAnswered, _) => (None, None),
            };
        }
        for (mut comment, is_trusted) in comments.into_iter().zip(by_trusted) {
            let edit = match (&mut editors, &comment.node_id) {
                _ if !is_trusted => TextEdit::By(None),
                (LastEditors::Found(found), Some(node)) => match found.remove(node) {
                    Some(LastEdit { body, edit, .. }) => {
                        comment.body = Some(body);
                        edit
                    }
                    None => TextEdit::By(None),
                },
                _ => TextEdit::NotTold { unchanged: comment.looks_unchanged() },
            };
            let is_shown = self.is_edit_trusted(github, repo, &edit).await?;
            background.remarks.push(to_earlier_comment(comment, is_shown));
        }
        Ok(background)
    }

    /// Tells whether the text of a trusted author may be shown, by its last editor.
    async fn is_edit_trusted(
        &self,
        github: &GithubClient,
        repo: &RepoName,
        edit: &TextEdit,
    ) -> Result<bool, EventError> {
        match edit {
            TextEdit::Original => Ok(true),
            TextEdit::By(editor) => self.is_trusted(github, repo, editor.as_ref()).await,
            TextEdit::NotTold { unchanged } => Ok(*unchanged),
        }
    }
}

fn to_earlier_comment(comment: CommentPayload, is_shown: bool) -> EarlierComment {
    let author = comment.user.map(|user| user.login).unwrap_or_else(|| "ghost".to_owned());
    EarlierComment {
        author,
        at: comment.created_at.unwrap_or_default(),
        body: comment.body.unwrap_or_default(),
        is_shown,
    }
}

/// Returns the last comments before a text.
async fn comments_before(
    github: &GithubClient,
    repo: &RepoName,
    number: u64,
    text: &EventText,
) -> Result<Vec<CommentPayload>, ApiError> {
    let mut comments = github.list_comments(repo, number).await?;
    let own = match &text.place {
        TextPlace::Comment { id } => Some(*id),
        TextPlace::Body | TextPlace::Review { .. } | TextPlace::Lines { .. } => None,
    };
    let before = |comment: &CommentPayload| Some(comment.id) != own && comment.created_at <= text.created_at;
    comments.retain(|comment| before(comment) || text.created_at.is_none());
    let skip = comments.len().saturating_sub(MAX_EARLIER_COMMENTS);
    Ok(comments.split_off(skip))
}

async fn find_editors(
    github: &GithubClient,
    repo: &RepoName,
    nodes: &[&str],
    tries: i64,
) -> Result<LastEditors, ApiError> {
    if nodes.is_empty() {
        return Ok(LastEditors::Found(HashMap::new()));
    }
    let error = match github.last_edits(repo, nodes).await {
        Ok(found) => {
            let named = nodes.iter().map(|node| (*node).to_owned()).zip(found);
            return Ok(LastEditors::Found(named.filter_map(|(node, found)| Some((node, found?))).collect()));
        }
        Err(error) => error,
    };
    let editors = match error.retry_advice() {
        RetryAdvice::Never => LastEditors::NotSupported,
        RetryAdvice::Later if tries >= MAX_EDITOR_LOOKUP_ATTEMPTS => LastEditors::NotAnswered,
        RetryAdvice::Later | RetryAdvice::After(_) => return Err(error),
    };
    tracing::warn!(%repo, %error, "editors of a thread not looked up");
    Ok(editors)
}

/// Replaces an optional fact by its default if GitHub does not return it after several attempts.
fn or_without<T: Default>(answer: Result<T, ApiError>, fact: &str, tries: i64) -> Result<T, ApiError> {
    let hopeless = |error: &ApiError| match error.retry_advice() {
        RetryAdvice::Never => true,
        RetryAdvice::Later => tries >= MAX_LOOKUP_ATTEMPTS,
        RetryAdvice::After(_) => false,
    };
    match answer {
        Err(error) if hopeless(&error) => {
            tracing::warn!(fact, %error, "fact left out for the agent");
            Ok(T::default())
        }
        other => other,
    }
}
