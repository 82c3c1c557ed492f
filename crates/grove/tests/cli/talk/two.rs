//! Two servers on one store.

use std::fs;

use grove_testkit::{TestEngine, TestServer, TestStore, is_long_run};
use serde_json::json;

use super::registered_sandbox;

#[test]
fn two_servers_share_the_work_and_one_may_be_killed() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Postgres));
    let runs = grove.repo.temp_dir().join("runs");
    let mut servers = [TestServer::start(&grove), TestServer::start(&grove)];
    let (conversations, messages) = if is_long_run() { (50, 10) } else { (20, 6) };
    for number in 0..messages {
        for conversation in 0..conversations {
            let server = &servers[(number + conversation) % 2];
            let text = format!("echo {conversation}-{number} >> {}; echo answer-{number}", runs.display());
            // Work is shared, so that worktrees are not what is measured.
            let hints = json!({ "workflowType": "issue", "workflowId": (conversation % 5 + 1).to_string() });
            server.say_with(&json!({ "conversationId": format!("c{conversation}"), "message": text, "hints": hints }));
        }
        if number == messages / 2 {
            servers[0].kill();
            let [dead, _] = &mut servers;
            *dead = TestServer::start(&grove);
        }
    }
    let (mut answered, mut interrupted) = (0, 0);
    for conversation in 0..conversations {
        let said = servers[1].wait_until_settled(&format!("c{conversation}"));
        let answers: Vec<&String> =
            said.iter().filter(|text| text.contains("answer-") || text.contains("interrupted")).collect();
        assert_eq!(answers.len(), messages, "{said:#?}");
        for (number, answer) in answers.iter().enumerate() {
            match answer.strip_prefix("answer-") {
                Some(text) => {
                    assert_eq!(text, number.to_string(), "{said:#?}");
                    answered += 1;
                }
                None => interrupted += 1,
            }
        }
    }
    let log = fs::read_to_string(&runs).unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "nothing ran twice");
    println!("{conversations} × {messages}: {answered} answered, {interrupted} interrupted, 0 twice, order kept");
    assert_eq!(answered + interrupted, conversations * messages);
}
