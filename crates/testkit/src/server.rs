//! The product's own server, spoken to as an adapter would.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Sandbox;

/// How long anything is waited for before the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until this value goes.
pub struct TestServer {
    child: Child,
    pub address: String,
    token: String,
    /// Behind a lock, so that several may speak to one server.
    log: Mutex<mpsc::Receiver<String>>,
}

/// What the server answered to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl TestServer {
    /// `grove serve --test-adapter` on a port of its own.
    pub fn start(grove: &Sandbox) -> Self {
        Self::run(grove.command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"]), grove)
    }

    /// The same, with a command that somebody prepared.
    pub fn run(mut command: Command, grove: &Sandbox) -> Self {
        // Its own group, as a service has: what a test kills is the server alone.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the server starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (lines, log) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let (began, mut said) = (Instant::now(), Vec::new());
        let address = loop {
            let line = log.recv_timeout(PATIENCE.saturating_sub(began.elapsed()));
            let line = line.unwrap_or_else(|_| panic!("the server is not ready: {said:#?}"));
            if let Some(address) = line.strip_prefix("listening on ") {
                break address.to_owned();
            }
            said.push(line);
        };
        let token = std::fs::read_to_string(grove.grove_home().join("token")).unwrap_or_default();
        Self { child, address, token: token.trim().to_owned(), log: Mutex::new(log) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// What it has logged since the last time.
    pub fn logged(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect()
    }

    /// Any request, with these headers.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
        self.request_with_headers(method, path, headers, body).0
    }

    /// The same, with the headers of the answer.
    pub fn request_with_headers(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> (Answer, Vec<(String, String)>) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.request_with_bytes(method, path, &headers, body.unwrap_or_default().as_bytes())
    }

    /// The same, of any bytes.
    pub fn request_with_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> (Answer, Vec<(String, String)>) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        let agent = ureq::Agent::new_with_config(agent);
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).expect("a request");
        match agent.run(request) {
            Ok(mut response) => {
                let status = response.status().as_u16();
                let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
                let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
                (Answer { status, text: response.body_mut().read_to_string().unwrap_or_default() }, headers)
            }
            Err(error) => (Answer { status: 0, text: error.to_string() }, Vec::new()),
        }
    }

    /// A request of the JSON API, with the token.
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.request(method, path, &headers, body.map(Value::to_string).as_deref())
    }

    fn test(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("content-type", "application/json")], Some(&body.to_string()))
    }

    /// Says something; whether it was accepted.
    pub fn try_say(&self, body: &Value) -> bool {
        self.test("/test/message", body).status == 202
    }

    #[track_caller]
    pub fn say_with(&self, body: &Value) {
        let answer = self.test("/test/message", body);
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    #[track_caller]
    pub fn say(&self, conversation: &str, message: &str) {
        self.say_with(&json!({ "conversationId": conversation, "message": message }));
    }

    #[track_caller]
    pub fn close(&self, body: &Value) {
        let answer = self.test("/test/close", body);
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    /// What was said so far, and whether anything is still to come.
    #[track_caller]
    pub fn messages(&self, conversation: &str) -> (bool, Vec<String>) {
        let answer = self.request("GET", &format!("/test/messages/{}", encoded(conversation)), &[], None);
        assert_eq!(answer.status, 200, "{answer:?}");
        let json = answer.json();
        let texts = json["messages"].as_array().expect("messages").iter();
        let texts = texts.map(|message| message["message"].as_str().expect("a text").to_owned());
        (json["idle"] == true, texts.collect())
    }

    /// Waits until nothing is to come, and gives what was said.
    #[track_caller]
    pub fn settled(&self, conversation: &str) -> Vec<String> {
        self.wait_until(conversation, |idle, _| idle)
    }

    /// Waits until `enough` of what was said.
    #[track_caller]
    pub fn wait_until(&self, conversation: &str, enough: impl Fn(bool, &[String]) -> bool) -> Vec<String> {
        let began = Instant::now();
        loop {
            let (idle, messages) = self.messages(conversation);
            if enough(idle, &messages) {
                return messages;
            }
            assert!(began.elapsed() < PATIENCE, "{conversation}: {messages:#?} {:#?}", self.logged());
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Says something and gives everything that was said since.
    #[track_caller]
    pub fn ask(&self, conversation: &str, message: &str) -> Vec<String> {
        self.ask_with(&json!({ "conversationId": conversation, "message": message }))
    }

    #[track_caller]
    pub fn ask_with(&self, body: &Value) -> Vec<String> {
        let conversation = body["conversationId"].as_str().expect("a conversation");
        let before = self.messages(conversation).1.len();
        self.say_with(body);
        self.settled(conversation).split_off(before)
    }

    /// What the server tells whoever looks on, from now on.
    pub fn events(&self) -> mpsc::Receiver<Value> {
        let agent = ureq::Agent::new_with_defaults();
        let request = agent.get(format!("{}/api/events", self.address));
        let response = request.header("authorization", format!("Bearer {}", self.token)).call().expect("events");
        let (events, heard) = mpsc::channel();
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok());
                if event.is_some_and(|event| events.send(event).is_err()) {
                    return;
                }
            }
        });
        heard
    }

    /// As the machine does to a program that takes too much memory.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Asks it to end, and waits for that.
    pub fn terminate(&mut self) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("SIGTERM");
        self.child.wait().expect("wait")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A conversation's id as a part of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
