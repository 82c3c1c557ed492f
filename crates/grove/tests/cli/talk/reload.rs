//! An edit of `config.toml` is taken up while the server runs.

use std::fs;

use grove_testkit::{Sandbox, TestEngine, TestServer, TestStore, wait_for};
use serde_json::{Value, json};

use super::page::SignedInBrowser;
use super::start_test_server;

fn write_settings(grove: &Sandbox, text: &str) {
    // Written as editors do it: a new file takes the place of the old one.
    let (new, config) = (grove.grove_home().join("config.new"), grove.grove_home().join("config.toml"));
    fs::write(&new, text).unwrap();
    fs::rename(new, config).unwrap();
}

fn reload_outcome(server: &TestServer) -> Value {
    server.call_api("GET", "/api/status", None).json()["settings"].clone()
}

#[test]
fn agents_and_limits_of_an_edited_file_are_used_without_a_restart() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    assert_eq!(server.ask("c", "echo $((6*7))").last().map(String::as_str), Some("42"));
    write_settings(
        &grove,
        "agent.default = \"parrot\"\nlimits.max_worktrees_per_codebase = 1\n\
         [agents.parrot]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"echo $PARROT_KEY; cat\"]\n\
         env = { PARROT_KEY = \"polly-wants-a-cracker\" }\n",
    );
    wait_for(|| {
        server
            .ask("c", "/agent parrot")
            .last()
            .is_some_and(|text| text.contains("parrot") && !text.contains("No agent"))
    });
    // Its key is a secret from then on.
    assert_eq!(server.ask("c", "hello").last().map(String::as_str), Some("***\nhello"));
    // An unchanged worktree of another conversation makes way, one with a file in it does not.
    let last = server.ask("d", "hello").pop().unwrap();
    assert!(last.contains("You have 1 active worktrees") && last.contains("(limit reached)"), "{last}");
    write_settings(&grove, "agent.default = \"sh\"\n");
    wait_for(|| server.ask("d", "echo $((6*7))").last().is_some_and(|text| text == "42"));
}

#[test]
fn a_file_with_a_mistake_is_shown_and_changes_nothing() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let browser = SignedInBrowser::open_page(&server);
    assert!(!browser.get(&server, "/page/settings").text.contains("settings"));
    write_settings(&grove, "limits.max_worktrees_per_codebase = 1\ncleanup.stale_day = 3\n");
    wait_for(|| reload_outcome(&server)["error"].is_string());
    let config = grove.grove_home().join("config.toml").display().to_string();
    let error = format!("{config}:2: `cleanup.stale_day` is not a setting. Did you mean `cleanup.stale_days`?");
    assert_eq!(reload_outcome(&server), json!({ "error": error, "needs_restart": [] }));
    let notice = format!("{error} The server keeps its previous settings.");
    assert!(server.ask("c", "/status")[0].contains(&format!("Settings: {notice}")));
    let shown = browser.get(&server, "/page/settings").text;
    assert!(shown.contains("is not a setting") && shown.contains("The server keeps its previous settings."), "{shown}");
    assert!(browser.get(&server, "/").text.contains("The server keeps its previous settings."));
    // The limit in the line before the mistake is not used.
    server.ask("a", "echo a > a");
    assert!(!server.ask("b", "echo b").last().unwrap().contains("limit reached"));
    fs::remove_file(grove.grove_home().join("config.toml")).unwrap();
    wait_for(|| reload_outcome(&server)["error"].is_null());
    assert!(!server.ask("c", "/status")[0].contains("Settings:"));
}

#[test]
fn settings_that_need_a_restart_say_so() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let token = server.api_token().to_owned();
    write_settings(&grove, "[server]\ntoken = \"another-token-of-ours\"\n[adapters.github]\nallow_all = true\n");
    wait_for(|| reload_outcome(&server)["needs_restart"] == json!(["server.token"]));
    assert!(server.ask("c", "/status")[0].contains("Settings: Restart the server to use the new `server.token`."));
    assert_eq!(token, server.api_token(), "the old one is used until then");
    assert_eq!(server.ask("c", "printf another-%s token-of-ours").last().map(String::as_str), Some("***"));
    // A flag of this start stays stronger than the file.
    write_settings(&grove, "adapters.test.enabled = false\n");
    wait_for(|| reload_outcome(&server)["needs_restart"] == json!([]));
    assert_eq!(server.ask("c", "echo on").last().map(String::as_str), Some("on"));
}
