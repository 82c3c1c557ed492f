//! A user sends a message, and it is handled in the right environment, in order, once. The tests use
//! the test adapter, as a chat.

mod access;
mod agent_formats;
mod agents;
mod chat;
mod choices;
mod commands;
mod connections;
mod custom;
mod full_disk;
mod kills;
mod openapi;
mod page;
mod places;
mod queue;
mod real_agents;
mod reload;
mod server;
mod sessions;
mod two;

use std::process::Command;

use grove_testkit::{Sandbox, TestRepo, TestServer, TestStore};

use crate::sandbox_on;

/// A registered repository and a server.
fn start_test_server(store: TestStore) -> (Sandbox, TestServer) {
    let grove = registered_sandbox(store);
    let server = TestServer::start(&grove);
    (grove, server)
}

fn registered_sandbox(store: TestStore) -> Sandbox {
    let grove = sandbox_on(store, TestRepo::new());
    grove.grove(["codebase", "add", "--json"]).assert_success();
    grove
}

/// The server's command, for tests that want a variable more.
fn serve_command(grove: &Sandbox) -> Command {
    grove.grove_command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"])
}

/// The environments, as `worktree list --json` gives them.
fn list_environments(grove: &Sandbox) -> Vec<serde_json::Value> {
    let list = grove.grove(["worktree", "list", "--json"]).assert_success().json();
    list.as_array().expect("a list").clone()
}

fn list_branches(grove: &Sandbox) -> Vec<String> {
    list_environments(grove).iter().map(|e| e["branch"].as_str().expect("a branch").to_owned()).collect()
}
