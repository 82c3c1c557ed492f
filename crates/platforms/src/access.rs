//! Decides who may direct the agent from a chat.

use grove_conversations::conversations::Conversations;
use grove_environments::settings::ChatSettings;
use grove_store::StoreError;

/// A person in a chat.
#[derive(Clone, Copy, Debug)]
pub struct ChatUser<'a> {
    /// The platform's id, which never changes.
    pub id: &'a str,
    /// The name that the person chose, where the platform has one; another person may have it tomorrow.
    pub login: Option<&'a str>,
}

/// Tells whether a person may direct the agent. A listed login means the account that was first seen with it.
pub async fn is_allowed(
    conversations: &Conversations,
    platform: &'static str,
    settings: &ChatSettings,
    user: ChatUser<'_>,
) -> Result<bool, StoreError> {
    if settings.allowed_users.is_empty() {
        return Ok(settings.allow_all);
    }
    let listed = |name: &str| settings.allowed_users.iter().any(|user| plain_name(user) == plain_name(name));
    if listed(user.id) {
        return Ok(true);
    }
    // A login that looks like an id means the account with that id.
    let Some(login) = user.login.map(plain_name).filter(|login| listed(login) && !is_id(login)) else {
        return Ok(false);
    };
    let mark = format!("account of {login}");
    conversations.store.set_first_mark(platform, &mark, user.id).await?;
    Ok(conversations.store.find_mark(platform, &mark).await?.as_deref() == Some(user.id))
}

fn plain_name(name: &str) -> String {
    name.trim().trim_start_matches('@').to_lowercase()
}

fn is_id(login: &str) -> bool {
    login.bytes().all(|byte| byte.is_ascii_digit())
}
