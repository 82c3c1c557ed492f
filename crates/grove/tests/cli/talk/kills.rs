//! Killed again and again under a steady stream of messages.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use grove_testkit::{SeededRandom, TestServer, both_engines, is_alive, is_long_run, wait_for};
use serde_json::json;

use super::{list_environments, registered_sandbox};

fn is_answer(text: &str) -> bool {
    ["answer-", "was interrupted by"].iter().any(|part| text.contains(part))
}

both_engines! {
    fn every_message_is_answered_once_however_often_the_server_is_killed(store: TestStore) {
        let kills = if is_long_run() { 100 } else { 10 };
        let grove = registered_sandbox(store);
        let (runs, pids) = (grove.repo.temp_dir().join("runs"), grove.repo.temp_dir().join("pids"));
        let conversations = 6;
        let mut dice = SeededRandom(17);
        let (mut accepted, mut refused) = (BTreeMap::<String, Vec<usize>>::new(), 0);
        let mut number = 0;
        let message = |number: usize| {
            format!("echo $$ >> {}; echo begin-{number} >> {}; sleep 0.02; echo end-{number} >> {}; echo answer-{number}",
                pids.display(), runs.display(), runs.display())
        };
        for _ in 0..kills {
            let mut server = TestServer::start(&grove);
            let stop = std::time::Instant::now() + Duration::from_millis(30 + dice.next_below(500));
            while std::time::Instant::now() < stop {
                let conversation = format!("c{}", dice.next_below(conversations));
                let body = json!({ "conversationId": conversation, "message": message(number),
                    "hints": { "workflowType": "issue", "workflowId": (dice.next_below(3) + 1).to_string() } });
                if server.try_say(&body) {
                    accepted.entry(conversation).or_default().push(number);
                } else {
                    refused += 1;
                }
                number += 1;
                std::thread::sleep(Duration::from_millis(dice.next_below(40)));
            }
            server.kill();
        }
        let server = TestServer::start(&grove);
        let (mut answered, mut interrupted, mut set_aside) = (0, 0, 0);
        for (conversation, numbers) in &accepted {
            let said = server.wait_until_settled(conversation);
            let answers: Vec<&String> = said.iter().filter(|text| is_answer(text)).collect();
            assert_eq!(answers.len(), numbers.len(), "{conversation}: {said:#?}");
            // In order, and each to its own message; a notice names the message's beginning only.
            let mut last = None;
            for (answer, number) in answers.iter().zip(numbers) {
                if let Some(text) = answer.strip_prefix("answer-") {
                    assert_eq!(text, number.to_string(), "{conversation}");
                    answered += 1;
                } else if !answer.contains("is set aside") {
                    interrupted += 1;
                } else {
                    // Killed three times before its agent could start.
                    set_aside += 1;
                }
                assert!(last < Some(number), "{conversation}");
                last = Some(number);
            }
        }
        let log = fs::read_to_string(&runs).unwrap();
        let count = |line: String| log.lines().filter(|known| **known == line).count();
        let mut finished = 0;
        for number in accepted.values().flatten() {
            assert!(count(format!("begin-{number}")) <= 1, "{number} began twice");
            finished += count(format!("end-{number}"));
            assert!(count(format!("end-{number}")) <= 1, "{number} ran twice");
        }
        wait_for(|| fs::read_to_string(&pids).unwrap().lines().all(|pid| !is_alive(pid)));
        let list = list_environments(&grove);
        assert!(list.iter().all(|e| e["status"] == "active" && e["state"] != "missing" && e["state"] != "broken"), "{list:#?}");
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), list.len() + 1);
        let all: usize = accepted.values().map(Vec::len).sum();
        println!(
            "{kills} kills: {all} accepted, {refused} refused; {answered} answered, {interrupted} interrupted, {set_aside} set aside; \
             {finished} finished, 0 twice; 0 orphan processes; {} environments, 0 half made", list.len()
        );
        assert_eq!(answered + interrupted + set_aside, all);
    }
}
