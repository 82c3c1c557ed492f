//! Somebody says something, and it is worked on in the right place, in order, once. Told through the
//! test adapter, as a chat.

mod access;
mod agent_formats;
mod agents;
mod chat;
mod commands;
mod connections;
mod custom;
mod full_disk;
mod house;
mod kills;
mod page;
mod places;
mod queue;
mod real_agents;
mod sessions;
mod two;

use std::process::Command;

use grove_testkit::{Sandbox, TestRepo, TestServer, TestStore};

use crate::on;

/// A registered repository and a server.
fn talking(store: TestStore) -> (Sandbox, TestServer) {
    let grove = registered(store);
    let server = TestServer::start(&grove);
    (grove, server)
}

fn registered(store: TestStore) -> Sandbox {
    let grove = on(store, TestRepo::new());
    grove.grove(["codebase", "add", "--json"]).ok();
    grove
}

/// The server's command, for tests that want a variable more.
fn serve(grove: &Sandbox) -> Command {
    grove.command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"])
}

/// The environments, as `worktree list --json` gives them.
fn environments(grove: &Sandbox) -> Vec<serde_json::Value> {
    let list = grove.grove(["worktree", "list", "--json"]).ok().json();
    list.as_array().expect("a list").clone()
}

fn branches(grove: &Sandbox) -> Vec<String> {
    environments(grove).iter().map(|e| e["branch"].as_str().expect("a branch").to_owned()).collect()
}
