//! What `grove doctor` says of Discord.

use std::fs;

use grove_testkit::discord::FakeDiscord;
use grove_testkit::{Sandbox, TestRepo};

use super::{LAST_LINE_AGENT, discord_config};
use crate::new_sandbox;

/// What is said of Discord, as "verdict name: detail".
#[track_caller]
fn discord_checks(grove: &Sandbox, well: bool) -> Vec<String> {
    let ran = grove.grove(["doctor", "--json"]);
    assert_eq!(ran.code, i32::from(!well), "{ran:?}");
    let told = ran.json();
    let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = told["checks"].as_array().unwrap().iter();
    let mut said = Vec::new();
    for check in checks.filter(|check| text(check, "name").starts_with("discord")) {
        let verdict = text(check, "verdict");
        assert_eq!(text(check, "hint").is_empty(), verdict == "good", "{check}");
        said.push(format!("{verdict} {}: {}", text(check, "name"), text(check, "detail")));
    }
    said
}

fn write_config(grove: &Sandbox, config: &str) {
    fs::create_dir_all(grove.grove_home()).unwrap();
    fs::write(grove.grove_home().join("config.toml"), config).unwrap();
}

#[test]
fn the_setup_is_checked() {
    let (discord, grove) = (FakeDiscord::start(), new_sandbox(TestRepo::new()));
    write_config(&grove, "");
    assert_eq!(discord_checks(&grove, true), Vec::<String>::new());

    let config = discord_config(&discord, LAST_LINE_AGENT);
    write_config(&grove, &config);
    let good = [
        "good discord users: 1 person may direct the bot",
        "good discord: as grove",
        "good discord message content: the intent is switched on",
    ];
    assert_eq!(discord_checks(&grove, true), good);
    assert!(discord.received_requests().iter().all(|request| request.method == "GET"), "nothing is changed");

    write_config(&grove, &config.replace("allowed_users = [\"alice\"]", ""));
    assert_eq!(discord_checks(&grove, true)[0], "warning discord users: no person may direct the bot");

    discord.forbid_message_content();
    write_config(&grove, &config);
    let off = "bad discord message content: the intent is switched off, so Discord refuses the connection";
    assert_eq!(discord_checks(&grove, false)[2], off);

    discord.revoke_token();
    let checks = discord_checks(&grove, false);
    assert_eq!(checks[1..], ["bad discord: Discord does not take the token"]);

    write_config(&grove, &config.replace("ws://", "http://"));
    let checks = discord_checks(&grove, false);
    assert!(checks[1].starts_with("bad discord: `adapters.discord.gateway_url` is not an address"), "{checks:?}");
}
