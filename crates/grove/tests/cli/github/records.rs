//! No secret that people write on GitHub is kept: neither in what it told us nor in the conversation.

use std::fs;
use std::path::{Path, PathBuf};

use grove_testkit::{TestEngine, TestStore};
use serde_json::json;

use super::{GithubTest, LAST_LINE_AGENT, POLL_SETTINGS, WEBHOOK_SECRET};

const TITLE_SECRET: &str = "ghp_0123456789titleTITLE0123456789";
const BODY_SECRET: &str = "npm_0123456789bodyBODY0123456789abcdefgh";
const KEY_LINE_SECRET: &str = "MIIEowIBAAKCAQEAnotAKeyButLooksLikeOne";
const COMMENT_SECRET: &str = "xoxb-0123456789remarkREMARK0123456789";
const PROMPT_SECRET: &str = "sk-ant-0123456789wordsWORDS0123456789";
const CONTEXT_SECRET: &str = "glpat-0123456789contextCONTEXT0123456789";

/// All files below a folder that hold one of the secrets.
fn files_with_secrets(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files_with_secrets(&path, found);
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        let secrets = [TITLE_SECRET, BODY_SECRET, KEY_LINE_SECRET, COMMENT_SECRET, PROMPT_SECRET, CONTEXT_SECRET]
            .into_iter()
            .filter(|secret| text.contains(secret));
        found.extend(secrets.map(|secret| format!("{secret} in {}", path.display())));
    }
}

fn people_write_secrets(settings: &str, polls: bool) {
    let store = TestStore::new(TestEngine::Sqlite);
    let database = PathBuf::from(store.url.strip_prefix("sqlite://").unwrap());
    let mut office = GithubTest::set_up(store, LAST_LINE_AGENT, settings, polls);
    let github = &office.github;
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE_SECRET}\n-----END RSA PRIVATE KEY-----");
    let issue = github.open_issue("alice", &format!("Leaked {TITLE_SECRET}"), &format!("{BODY_SECRET}\n\n{key}\n"));
    github.comment("alice", issue, &format!("This one, too: {COMMENT_SECRET}"));
    github.comment("alice", issue, &format!("@grove echo 'said {PROMPT_SECRET} once'"));
    assert_eq!(office.wait_for_replies(issue, 2)[1], "said *** once");
    // However often it is heard of.
    office.at_rest();
    assert_eq!(office.bot_replies(issue).len(), 2);
    let told = json!({ "conversationId": "c", "message": format!("echo 'said {PROMPT_SECRET}'"), "context": format!("# {CONTEXT_SECRET}") });
    assert!(office.server.ask_with(&told).last().unwrap().ends_with("said ***"));
    office.server.terminate();
    let mut found = Vec::new();
    files_with_secrets(&office.grove.grove_home(), &mut found);
    files_with_secrets(database.parent().unwrap(), &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn no_secret_of_a_webhook_is_kept() {
    people_write_secrets(&format!("webhook_secret = \"{WEBHOOK_SECRET}\"\nrepos = [\"octo/shop\"]"), false);
}

#[test]
fn no_secret_that_was_asked_for_is_kept() {
    people_write_secrets(POLL_SETTINGS, true);
}
