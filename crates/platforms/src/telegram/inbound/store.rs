//! Stores updates before they are acknowledged.

use grove_environments::redact::Redactor;
use grove_store::StoreError;
use serde_json::Value;

use crate::telegram::TelegramAdapter;

/// The fields of an update that people write.
const PROSE_FIELDS: [&str; 6] = ["text", "caption", "title", "first_name", "last_name", "file_name"];

impl TelegramAdapter {
    /// Stores an update without its secrets; it is in the store when this returns. Returns whether it is new.
    pub(super) async fn store_update(&self, id: i64, mut update: Value) -> Result<bool, StoreError> {
        remove_secrets(&self.conversations.redactor, &mut update);
        let delivery = format!("{}:{id}", self.bot_id());
        self.queue.store_event(delivery, "update".to_owned(), update.to_string()).await
    }
}

/// Removes the secrets from an update. The parts of a text are found by their position, so those of a text
/// that changed are removed, too.
fn remove_secrets(redactor: &Redactor, update: &mut Value) {
    let before = update.clone();
    redactor.clean_json(update, |key| PROSE_FIELDS.contains(&key));
    drop_moved_entities(&before, update);
}

fn drop_moved_entities(before: &Value, now: &mut Value) {
    let Value::Object(fields) = now else { return };
    for (text, entities) in [("text", "entities"), ("caption", "caption_entities")] {
        if fields.get(text) != before.get(text) {
            fields.remove(entities);
        }
    }
    for (name, field) in fields.iter_mut() {
        if let Some(before) = before.get(name) {
            drop_moved_entities(before, field);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_go_and_what_stood_behind_them_is_not_misread() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let message = |text: &str| json!({ "message": { "text": text, "entities": [{ "offset": 0 }] } });
        let mut update = message(&format!("use {token} please"));
        remove_secrets(&Redactor::default(), &mut update);
        assert!(!update.to_string().contains(&token) && update["message"].get("entities").is_none(), "{update}");
        let mut plain = message("hello");
        remove_secrets(&Redactor::default(), &mut plain);
        assert_eq!(plain, message("hello"));
    }
}
