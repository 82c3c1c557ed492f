//! Posts answers to Slack: `format` decides how a text is shown, `messages` posts and updates it.

pub(crate) mod format;
pub(crate) mod messages;
