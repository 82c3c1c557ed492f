//! Checks whether Telegram works as it is configured. Nothing is written anywhere, and every request has a
//! timeout.

use std::time::Duration;

use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck, new_check};
use grove_environments::settings::TelegramSettings;
use tokio::time::timeout;

use crate::telegram::api::{BotAccount, TelegramClient, TelegramError, WebhookInfo};

/// The time to wait for one response.
const CHECK_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A shorter secret can be guessed.
const MIN_SECRET_LENGTH: usize = 16;

const ACCOUNT_CHECK_NAME: &str = "telegram";
const USERS_CHECK_NAME: &str = "telegram users";
const WEBHOOK_CHECK_NAME: &str = "telegram webhook";
const GROUPS_CHECK_NAME: &str = "telegram groups";

/// Runs all checks; returns none if Telegram is not configured.
pub async fn run_telegram_checkup(settings: &TelegramSettings) -> Vec<DoctorCheck> {
    let Some(token) = settings.token.as_deref().map(str::trim) else {
        let is_meant = settings.webhook_secret.is_some() || !settings.chat.allowed_users.is_empty();
        return if is_meant { vec![missing_token()] } else { Vec::new() };
    };
    let mut checks = vec![check_users(settings)];
    let account = match TelegramClient::new(settings, token) {
        Ok(client) => {
            let (account, webhook) = tokio::join!(within_time(client.get_me()), within_time(client.get_webhook_info()));
            if account.is_ok() {
                checks.push(check_webhook(settings, &webhook));
            }
            account
        }
        Err(error) => Err(error),
    };
    checks.splice(0..0, check_account(&account));
    checks
}

async fn within_time<T>(asked: impl Future<Output = Result<T, TelegramError>>) -> Result<T, TelegramError> {
    let late = |_| Err(TelegramError::Unavailable("the time is over".to_owned()));
    timeout(CHECK_REQUEST_TIMEOUT, asked).await.unwrap_or_else(late)
}

fn missing_token() -> DoctorCheck {
    let hint = "Create a bot with @BotFather and set its token as `adapters.telegram.token`.";
    new_check(ACCOUNT_CHECK_NAME, CheckResult::Bad, "no token is configured", hint)
}

fn check_users(settings: &TelegramSettings) -> DoctorCheck {
    let chat = &settings.chat;
    if !chat.allowed_users.is_empty() {
        let many = chat.allowed_users.len();
        let detail = if many == 1 { "1 allowed user".to_owned() } else { format!("{many} allowed users") };
        return new_check(USERS_CHECK_NAME, CheckResult::Good, detail, "");
    }
    if chat.allow_all {
        let hint =
            "Every Telegram user who finds the bot can use it. List people in `adapters.telegram.allowed_users`.";
        return new_check(USERS_CHECK_NAME, CheckResult::Warning, "every user is allowed", hint);
    }
    let hint = "Add yourself to `adapters.telegram.allowed_users`; the log names the id of each user who is refused.";
    new_check(USERS_CHECK_NAME, CheckResult::Warning, "no user is allowed, so every message is refused", hint)
}

fn check_account(account: &Result<BotAccount, TelegramError>) -> Vec<DoctorCheck> {
    let account = match account {
        Ok(account) => account,
        Err(error) => return vec![failed_account(error)],
    };
    let detail = format!("as @{}", account.username);
    let groups = if account.can_read_all_group_messages {
        new_check(GROUPS_CHECK_NAME, CheckResult::Good, "the bot gets every message of its groups", "")
    } else {
        let detail = "group privacy is on: the bot gets mentions, commands and replies to it";
        let hint = "For topics without mentions, turn it off with /setprivacy at @BotFather and add the bot again.";
        new_check(GROUPS_CHECK_NAME, CheckResult::Good, detail, hint)
    };
    vec![new_check(ACCOUNT_CHECK_NAME, CheckResult::Good, detail, ""), groups]
}

fn failed_account(error: &TelegramError) -> DoctorCheck {
    let (verdict, hint) = match error {
        TelegramError::BadToken(_) => {
            (CheckResult::Bad, "Copy the token from @BotFather to `adapters.telegram.token`.")
        }
        TelegramError::Limited(_)
        | TelegramError::Unavailable(_)
        | TelegramError::Conflict(_)
        | TelegramError::Refused { .. } => {
            (CheckResult::Warning, "Try again later, or check that this machine reaches `adapters.telegram.api_url`.")
        }
    };
    new_check(ACCOUNT_CHECK_NAME, verdict, error.to_string(), hint)
}

fn check_webhook(settings: &TelegramSettings, webhook: &Result<WebhookInfo, TelegramError>) -> DoctorCheck {
    let webhook = match webhook {
        Ok(webhook) => webhook,
        Err(error) => {
            let hint = "Try again later.";
            return new_check(WEBHOOK_CHECK_NAME, CheckResult::Warning, format!("not known: {error}"), hint);
        }
    };
    let Some(secret) = &settings.webhook_secret else {
        if webhook.url.is_empty() {
            return new_check(WEBHOOK_CHECK_NAME, CheckResult::Good, "none; the server asks for updates", "");
        }
        let hint = "Delete it with `curl https://api.telegram.org/bot<token>/deleteWebhook`, or set \
                    `adapters.telegram.webhook_secret`.";
        let detail = format!("set to {}, so Telegram refuses to be asked for updates", webhook.url);
        return new_check(WEBHOOK_CHECK_NAME, CheckResult::Bad, detail, hint);
    };
    if webhook.url.is_empty() {
        let hint = "Tell Telegram the address of this server with `setWebhook`, see docs/telegram.md.";
        return new_check(WEBHOOK_CHECK_NAME, CheckResult::Bad, "Telegram has no address to send updates to", hint);
    }
    if !webhook.url.ends_with("/webhooks/telegram") {
        let hint = "The address must end with `/webhooks/telegram`. Call `setWebhook` again, see docs/telegram.md.";
        return new_check(WEBHOOK_CHECK_NAME, CheckResult::Warning, format!("set to {}", webhook.url), hint);
    }
    if let Some(why) = &webhook.last_error_message {
        let waiting = webhook.pending_update_count;
        let detail = format!("the last delivery to {} failed: {why} ({waiting} waiting)", webhook.url);
        let hint = "401 means another secret: call `setWebhook` with the one in `adapters.telegram.webhook_secret`. \
                    Otherwise check that Telegram reaches the address over HTTPS.";
        return new_check(WEBHOOK_CHECK_NAME, CheckResult::Warning, detail, hint);
    }
    if secret.chars().count() < MIN_SECRET_LENGTH {
        let detail = format!("the secret has less than {MIN_SECRET_LENGTH} characters, so it can be guessed");
        let hint = "Set a longer one here and with `setWebhook`; `openssl rand -hex 32` makes one.";
        return new_check(WEBHOOK_CHECK_NAME, CheckResult::Warning, detail, hint);
    }
    new_check(WEBHOOK_CHECK_NAME, CheckResult::Good, format!("set to {}", webhook.url), "")
}
