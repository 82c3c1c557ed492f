//! Checks whether Discord works as it is configured. Nothing is written anywhere, and every request has a
//! time limit.

use std::time::Duration;

use grove_environments::maintenance::doctor::{CheckResult, DoctorCheck, new_check};
use grove_environments::settings::DiscordSettings;

use crate::discord::api::{
    DiscordApiError, DiscordApplication, DiscordClient, DiscordSetupError, DiscordUser, check_gateway_url,
};

const CHECK_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

const DISCORD_CHECK_NAME: &str = "discord";
const INTENT_CHECK_NAME: &str = "discord message content";
const USERS_CHECK_NAME: &str = "discord users";

/// The application may read the content of messages; the second one is for bots in few servers.
const MESSAGE_CONTENT_FLAG: u64 = 1 << 18;
const LIMITED_MESSAGE_CONTENT_FLAG: u64 = 1 << 19;

/// Runs all checks; returns none if Discord is not configured.
pub async fn run_discord_checkup(settings: &DiscordSettings) -> Vec<DoctorCheck> {
    let Some(token) = &settings.token else { return Vec::new() };
    let mut checks = vec![check_users(settings)];
    let client = match check_gateway_url(&settings.gateway_url) {
        Ok(_) => DiscordClient::new(&settings.chat.api_url, token).await,
        Err(error) => Err(error),
    };
    let discord = match client {
        Ok(discord) => discord,
        Err(error) => {
            checks.push(check_setup(&error));
            return checks;
        }
    };
    let user = wait_with_timeout(discord.current_user()).await;
    checks.push(check_account(&user));
    if user.is_ok() {
        checks.push(check_intents(&wait_with_timeout(discord.current_application()).await));
    }
    checks
}

async fn wait_with_timeout<T>(asked: impl Future<Output = Result<T, DiscordApiError>>) -> Result<T, DiscordApiError> {
    let answered = tokio::time::timeout(CHECK_REQUEST_TIMEOUT, asked).await;
    answered.unwrap_or_else(|_| Err(DiscordApiError::unavailable("the time is over")))
}

fn check_users(settings: &DiscordSettings) -> DoctorCheck {
    let chat = &settings.chat;
    match (chat.allowed_users.len(), chat.allow_all) {
        (0, false) => new_check(
            USERS_CHECK_NAME,
            CheckResult::Warning,
            "no person may direct the bot",
            "Set `adapters.discord.allowed_users` to names or ids, or `allow_all = true`.",
        ),
        (0, true) => new_check(USERS_CHECK_NAME, CheckResult::Good, "everyone may direct the bot", ""),
        (1, _) => new_check(USERS_CHECK_NAME, CheckResult::Good, "1 person may direct the bot", ""),
        (count, _) => new_check(USERS_CHECK_NAME, CheckResult::Good, format!("{count} people may direct the bot"), ""),
    }
}

fn check_setup(error: &DiscordSetupError) -> DoctorCheck {
    let hint = match error {
        DiscordSetupError::ApiUrl(_) | DiscordSetupError::GatewayUrl(_) => {
            "Fix it in GROVE_HOME/config.toml, or remove it to use the default."
        }
        DiscordSetupError::NoCertificates => "Install it, for example with `apt install ca-certificates`.",
    };
    new_check(DISCORD_CHECK_NAME, CheckResult::Bad, error.to_string(), hint)
}

fn check_account(user: &Result<DiscordUser, DiscordApiError>) -> DoctorCheck {
    match user {
        Ok(user) => new_check(DISCORD_CHECK_NAME, CheckResult::Good, format!("as {}", user.username), ""),
        Err(error) if error.is_bad_credentials() => new_check(
            DISCORD_CHECK_NAME,
            CheckResult::Bad,
            "Discord does not take the token",
            "Reset the token on the Bot page of the application at https://discord.com/developers/applications and \
             set `adapters.discord.token`.",
        ),
        Err(error) => new_check(
            DISCORD_CHECK_NAME,
            CheckResult::Warning,
            error.to_string(),
            "Try again; if it stays so, check the network and `adapters.discord.api_url`.",
        ),
    }
}

fn check_intents(application: &Result<DiscordApplication, DiscordApiError>) -> DoctorCheck {
    match application {
        Ok(application) if application.flags & (MESSAGE_CONTENT_FLAG | LIMITED_MESSAGE_CONTENT_FLAG) != 0 => {
            new_check(INTENT_CHECK_NAME, CheckResult::Good, "the intent is switched on", "")
        }
        Ok(_) => new_check(
            INTENT_CHECK_NAME,
            CheckResult::Bad,
            "the intent is switched off, so Discord refuses the connection",
            "Switch on Message Content Intent on the Bot page of the application.",
        ),
        Err(error) => new_check(
            INTENT_CHECK_NAME,
            CheckResult::Warning,
            format!("not known: {error}"),
            "Try again, or look at the Bot page of the application.",
        ),
    }
}
