//! What `grove doctor` says of Telegram.

use grove_testkit::telegram::FakeTelegram;
use grove_testkit::{Sandbox, TestRepo};

use super::{LAST_LINE_AGENT, write_config};
use crate::new_sandbox;

const WEBHOOK_SETTINGS: &str = "allowed_users = [\"alice\"]\nwebhook_secret = \"a-long-secret-of-32-characters\"";

struct TelegramDoctorTest {
    telegram: FakeTelegram,
    grove: Sandbox,
}

impl TelegramDoctorTest {
    fn new() -> Self {
        Self { telegram: FakeTelegram::start(), grove: new_sandbox(TestRepo::new()) }
    }

    /// What is said of Telegram with these settings, as "verdict name: detail hint".
    #[track_caller]
    fn checks(&self, settings: &str) -> Vec<String> {
        write_config(&self.grove, &self.telegram, LAST_LINE_AGENT, settings);
        let before = self.telegram.received_requests().len();
        let told = self.grove.grove(["doctor", "--json"]).json();
        let asked = self.telegram.received_requests().split_off(before);
        assert!(asked.iter().all(|asked| asked.method == "getMe" || asked.method == "getWebhookInfo"), "{asked:?}");
        assert!(!told.to_string().contains(&self.telegram.token()), "{told}");
        let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        let all = told["checks"].as_array().unwrap().iter();
        let ours = all.filter(|check| text(check, "name").starts_with("telegram"));
        let ours = ours.map(|it| {
            format!("{} {}: {} {}", text(it, "verdict"), text(it, "name"), text(it, "detail"), text(it, "hint"))
        });
        ours.collect()
    }
}

#[track_caller]
fn assert_said(checks: &[String], start: &str, part: &str) {
    assert!(checks.iter().any(|check| check.starts_with(start) && check.contains(part)), "{start}: {checks:#?}");
}

#[test]
fn a_good_setup_is_good() {
    let test = TelegramDoctorTest::new();
    let checks = test.checks("allowed_users = [\"alice\"]");
    assert_eq!(checks.len(), 4, "{checks:#?}");
    assert!(checks.iter().all(|check| check.starts_with("good ")), "{checks:#?}");
    assert_said(&checks, "good telegram:", "as @grove_bot");
    assert_said(&checks, "good telegram groups:", "group privacy is on");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let test = TelegramDoctorTest::new();
    assert_said(&test.checks(""), "warning telegram users:", "every message is refused Add yourself");
    assert_said(&test.checks("allow_all = true"), "warning telegram users:", "every user is allowed");
    assert_said(&test.checks(WEBHOOK_SETTINGS), "bad telegram webhook:", "no address");
    test.telegram.set_webhook("https://x.dev/webhooks/telegram", "s");
    assert_said(&test.checks(WEBHOOK_SETTINGS), "good telegram webhook:", "https://x.dev");
    assert_said(&test.checks(""), "bad telegram webhook:", "deleteWebhook");
    test.telegram.set_webhook_error("Wrong response from the webhook: 401 Unauthorized");
    assert_said(&test.checks(WEBHOOK_SETTINGS), "warning telegram webhook:", "401");
    write_config(&test.grove, &test.telegram, LAST_LINE_AGENT, "");
    let before = test.telegram.token();
    test.telegram.revoke_token();
    let told = test.grove.grove(["doctor", "--json"]);
    assert_eq!(told.code, 1);
    assert!(told.stdout.contains("does not take our token") && !told.stdout.contains(&before), "{}", told.stdout);
}
