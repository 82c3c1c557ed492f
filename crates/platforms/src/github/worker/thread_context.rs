//! What the agent should know of a thread, and may see of it.

use std::collections::HashMap;

use crate::github::adapter::Adapter;
use crate::github::api::{ApiError, Github, LastEdit, Retry};
use crate::github::inbound::classify::{Asked, Facts};
use crate::github::inbound::context::{Background, Remark};
use crate::github::inbound::event::{Edit, Happening, Place, Text, Thread};
use crate::github::inbound::wire::Comment;
use crate::github::repo::RepoName;
use crate::github::worker::events::Stuck;

/// How much of what was said before is looked at; the context is bounded anyway.
const REMARKS: usize = 40;

/// After so many tries the agent goes without what GitHub does not tell.
const LOOKUP_TRIES: i64 = 5;

/// After so many tries the agent goes without texts whose last editor GitHub does not tell.
const EDITOR_LOOKUP_TRIES: i64 = 2;

/// The last editors of texts.
enum Editors {
    /// By GraphQL's names for the texts.
    Found(HashMap<String, LastEdit>),
    /// GitHub does not answer such questions.
    NotSupported,
    /// GitHub does not answer at the moment.
    NotAnswered,
}

impl Adapter {
    /// What the agent should know, and what decides where it works.
    pub(crate) async fn facts(
        &self,
        github: &Github,
        happening: &Happening,
        asked: &Asked<'_>,
        tries: i64,
    ) -> Result<Facts, Stuck> {
        let (repo, thread) = (&happening.repo.name, &happening.thread);
        let pull = if asked.wants_pull() { Some(github.pull(repo, thread.number).await?) } else { None };
        let mut background = self.background(github, repo, thread, asked.text, tries).await?;
        let mut linked = Vec::new();
        if thread.is_pull() {
            // The text alone counts then.
            linked = github.closes(repo, thread.number).await.unwrap_or_else(|error| {
                tracing::info!("which issues {repo}#{} closes is not known: {error}", thread.number);
                Vec::new()
            });
            background.files = or_without(github.files(repo, thread.number).await, "is changed", tries)?;
        }
        Ok(Facts { pull, linked, background })
    }

    async fn background(
        &self,
        github: &Github,
        repo: &RepoName,
        thread: &Thread,
        text: &Text,
        tries: i64,
    ) -> Result<Background, Stuck> {
        let comments = or_without(comments_before(github, repo, thread.number, text).await, "was said", tries)?;
        let (title, body) = (Some(thread.title.clone()), Some(thread.body.clone()));
        if self.settings.allow_all {
            let remarks = comments.into_iter().map(|comment| remark(comment, true)).collect();
            return Ok(Background { shows_opener: true, title, body, remarks, ..Background::default() });
        }
        let shows_opener = self.is_trusted(github, repo, thread.author.as_ref()).await?;
        // Asked for only where it makes a difference.
        let is_as_opened = text.place == Place::Body && text.edit == Edit::Original;
        let mut nodes: Vec<&str> = Vec::new();
        nodes.extend(thread.node.as_deref().filter(|_| shows_opener && !is_as_opened));
        let mut by_trusted = Vec::new();
        for comment in &comments {
            let is_trusted = self.is_trusted(github, repo, comment.user.as_ref()).await?;
            nodes.extend(comment.node_id.as_deref().filter(|_| is_trusted));
            by_trusted.push(is_trusted);
        }
        let mut editors = find_editors(github, repo, &nodes, tries).await?;
        let mut background = Background { shows_opener, ..Background::default() };
        if shows_opener {
            (background.title, background.body) = match (&mut editors, &thread.node) {
                _ if is_as_opened => (title, body),
                (Editors::Found(found), Some(node)) => match found.remove(node) {
                    Some(LastEdit { body, edit, title: Some(title) }) => (
                        self.is_edit_trusted(github, repo, &title.edit).await?.then_some(title.title),
                        self.is_edit_trusted(github, repo, &edit).await?.then_some(body),
                    ),
                    _ => (None, None),
                },
                (Editors::NotSupported, _) | (Editors::Found(_), None) => (title, body),
                (Editors::NotAnswered, _) => (None, None),
            };
        }
        for (mut comment, is_trusted) in comments.into_iter().zip(by_trusted) {
            let edit = match (&mut editors, &comment.node_id) {
                _ if !is_trusted => Edit::By(None),
                (Editors::Found(found), Some(node)) => match found.remove(node) {
                    Some(LastEdit { body, edit, .. }) => {
                        comment.body = Some(body);
                        edit
                    }
                    None => Edit::By(None),
                },
                _ => Edit::NotTold { unchanged: comment.looks_unchanged() },
            };
            let is_shown = self.is_edit_trusted(github, repo, &edit).await?;
            background.remarks.push(remark(comment, is_shown));
        }
        Ok(background)
    }

    /// Tells whether the words of a trusted author may be shown, by who changed them last.
    async fn is_edit_trusted(&self, github: &Github, repo: &RepoName, edit: &Edit) -> Result<bool, Stuck> {
        match edit {
            Edit::Original => Ok(true),
            Edit::By(editor) => self.is_trusted(github, repo, editor.as_ref()).await,
            Edit::NotTold { unchanged } => Ok(*unchanged),
        }
    }
}

fn remark(comment: Comment, is_shown: bool) -> Remark {
    let author = comment.user.map(|user| user.login).unwrap_or_else(|| "ghost".to_owned());
    Remark { author, at: comment.created_at.unwrap_or_default(), body: comment.body.unwrap_or_default(), is_shown }
}

/// The last comments that were written before a text.
async fn comments_before(github: &Github, repo: &RepoName, number: u64, text: &Text) -> Result<Vec<Comment>, ApiError> {
    let mut comments = github.comments(repo, number).await?;
    let own = match &text.place {
        Place::Comment { id } => Some(*id),
        Place::Body | Place::Review { .. } | Place::Lines { .. } => None,
    };
    let before = |comment: &Comment| Some(comment.id) != own && comment.created_at <= text.created_at;
    comments.retain(|comment| before(comment) || text.created_at.is_none());
    let skip = comments.len().saturating_sub(REMARKS);
    Ok(comments.split_off(skip))
}

async fn find_editors(github: &Github, repo: &RepoName, nodes: &[&str], tries: i64) -> Result<Editors, ApiError> {
    if nodes.is_empty() {
        return Ok(Editors::Found(HashMap::new()));
    }
    let error = match github.last_edits(repo, nodes).await {
        Ok(found) => {
            let named = nodes.iter().map(|node| (*node).to_owned()).zip(found);
            return Ok(Editors::Found(named.filter_map(|(node, found)| Some((node, found?))).collect()));
        }
        Err(error) => error,
    };
    let editors = match error.retry() {
        Retry::Never => Editors::NotSupported,
        Retry::Later if tries >= EDITOR_LOOKUP_TRIES => Editors::NotAnswered,
        Retry::Later | Retry::After(_) => return Err(error),
    };
    tracing::warn!("which accounts changed the texts of a thread in {repo} is not known: {error}");
    Ok(editors)
}

/// What the agent can do without is left out where GitHub does not tell it, however often it is asked.
fn or_without<T: Default>(answer: Result<T, ApiError>, what: &str, tries: i64) -> Result<T, ApiError> {
    let hopeless = |error: &ApiError| match error.retry() {
        Retry::Never => true,
        Retry::Later => tries >= LOOKUP_TRIES,
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
