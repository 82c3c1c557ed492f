//! What `grove doctor` says about Slack.

use std::fs;

use grove_testkit::slack::{APP_TOKEN, BOT_TOKEN, FakeSlack};
use grove_testkit::{Sandbox, TestRepo};

use crate::new_sandbox;

/// Returns what is said about Slack, as "verdict name: detail".
#[track_caller]
fn slack_checks(grove: &Sandbox, settings: &str, well: bool) -> Vec<String> {
    fs::create_dir_all(grove.grove_home()).unwrap();
    fs::write(grove.grove_home().join("config.toml"), format!("[adapters.slack]\n{settings}\n")).unwrap();
    let ran = grove.grove(["doctor", "--json"]);
    assert_eq!(ran.code, i32::from(!well), "{ran:?}");
    let told = ran.json();
    let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = told["checks"].as_array().unwrap().iter().filter(|check| text(check, "name").starts_with("slack"));
    checks
        .map(|check| {
            assert!(check["verdict"] == "good" || !text(check, "hint").is_empty(), "{check}");
            format!("{} {}: {}", text(check, "verdict"), text(check, "name"), text(check, "detail"))
        })
        .collect()
}

#[test]
fn the_doctor_checks_tokens_and_settings() {
    let (slack, grove) = (FakeSlack::start(), new_sandbox(TestRepo::new()));
    let api = format!("api_url = \"{}\"", slack.api_url());
    assert_eq!(slack_checks(&grove, "", true), [""; 0]);
    let all = format!("{api}\nbot_token = \"{BOT_TOKEN}\"\napp_token = \"{APP_TOKEN}\"\nallowed_users = [\"U1\"]");
    assert_eq!(
        slack_checks(&grove, &all, true),
        ["good slack token: connected as grove in Acme", "good slack socket: Socket Mode is available"]
    );
    let silent = format!("{api}\nbot_token = \"{BOT_TOKEN}\"");
    assert_eq!(
        slack_checks(&grove, &silent, true),
        [
            "warning slack events: Slack cannot send messages to grove",
            "warning slack access: no user may direct the agent",
            "good slack token: connected as grove in Acme"
        ]
    );
    slack.set_tokens_valid(false, false);
    assert_eq!(
        slack_checks(&grove, &all, false),
        [
            "bad slack token: Slack does not take our credentials: invalid_auth",
            "bad slack socket: Slack does not take our credentials: invalid_auth"
        ]
    );
    let plain = format!(
        "api_url = \"http://slack.example/api\"\nbot_token = \"{BOT_TOKEN}\"\nsigning_secret = \"s\"\nallow_all = true"
    );
    assert!(slack_checks(&grove, &plain, false)[0].contains("use an `https://` address"));
    assert!(slack_checks(&grove, "app_token = \"x\"", false)[0].contains("there is no bot token"));
    assert!(slack.requests("chat.postMessage").is_empty(), "the doctor writes nothing");
}
