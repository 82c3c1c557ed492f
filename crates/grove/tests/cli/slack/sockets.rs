//! Sockets that are dropped or replaced while people write.

use std::time::Instant;

use grove_testkit::{is_long_run, on_sqlite};

use super::{EventInput, SlackTest};

on_sqlite! {
    fn no_message_is_lost_when_sockets_are_dropped(store: TestStore) {
        let (messages, drops) = if is_long_run() { (500, 50) } else { (50, 5) };
        let test = SlackTest::open(store, EventInput::Sockets);
        let slack = &test.slack;
        grove_testkit::wait_for(|| slack.socket_count() == 2);
        let began = Instant::now();
        let threads: Vec<String> = (0..5).map(|number| slack.say("alice", "C1", &format!("@grove !status {number}"))).collect();
        test.at_rest();
        for number in 0..messages {
            slack.reply("alice", "C1", &threads[number % threads.len()], "!status");
            if number % (messages / drops) == 0 {
                if number % 2 == 0 { slack.drop_socket() } else { slack.refresh_socket() }
            }
        }
        let per_thread = messages / threads.len() + 1;
        let began_waiting = Instant::now();
        while !test.is_at_rest() || threads.iter().any(|thread| test.bot_texts("C1", thread).len() < per_thread) {
            assert!(began_waiting.elapsed().as_secs() < 120, "{} unacknowledged", slack.unacknowledged_count());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        for thread in &threads {
            assert_eq!(test.bot_texts("C1", thread).len(), per_thread);
        }
        println!("{messages} messages, {drops} sockets dropped, 0 lost, 0 doubled, {} s", began.elapsed().as_secs());
    }
}
