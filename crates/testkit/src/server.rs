//! The product's own server, used as an adapter would use it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Sandbox, poll_interval};

/// How long a test waits for anything before it fails.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

const REQUEST_BUFFER_SIZE: usize = 16 * 1024;

/// A server that runs until this value is dropped.
pub struct TestServer {
    child: Child,
    pub address: String,
    token: String,
    /// Behind a lock, so that several threads may use one server.
    log: Mutex<mpsc::Receiver<String>>,
}

/// The server's response to a request.
#[derive(Debug)]
pub struct ServerResponse {
    pub status: u16,
    pub text: String,
}

impl ServerResponse {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl TestServer {
    /// Starts `grove serve --test-adapter` on a port of its own.
    pub fn start(grove: &Sandbox) -> Self {
        Self::start_command(grove.grove_command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"]), grove)
    }

    /// Starts a server with a command that the caller prepared.
    pub fn start_command(mut command: Command, grove: &Sandbox) -> Self {
        // Its own process group, as a service has: a test kills the server alone.
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
            let line = log.recv_timeout(SERVER_TIMEOUT.saturating_sub(began.elapsed()));
            let line = line.unwrap_or_else(|_| panic!("the server is not ready: {said:#?}"));
            if let Some(address) = line.strip_prefix("listening on ") {
                break address.to_owned();
            }
            said.push(line);
        };
        let token = std::fs::read_to_string(grove.grove_home().join("token")).unwrap_or_default();
        Self { child, address, token: token.trim().to_owned(), log: Mutex::new(log) }
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub fn api_token(&self) -> &str {
        &self.token
    }

    /// Returns the lines that it has logged since the last call.
    pub fn take_log_lines(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect()
    }

    /// Sends any request, with these headers.
    pub fn send_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> ServerResponse {
        self.request_with_headers(method, path, headers, body).0
    }

    /// Sends any request, and returns the response with its headers.
    pub fn request_with_headers(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> (ServerResponse, Vec<(String, String)>) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.request_with_bytes(method, path, &headers, body.unwrap_or_default().as_bytes())
    }

    /// Sends any request, with any bytes in its headers and body.
    pub fn request_with_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> (ServerResponse, Vec<(String, String)>) {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(SERVER_TIMEOUT));
        // Without optimisation, filling the large default buffers takes longer than most requests.
        let config = config.input_buffer_size(REQUEST_BUFFER_SIZE).output_buffer_size(REQUEST_BUFFER_SIZE);
        let agent = ureq::Agent::new_with_config(config.build());
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
                (ServerResponse { status, text: response.body_mut().read_to_string().unwrap_or_default() }, headers)
            }
            Err(error) => (ServerResponse { status: 0, text: error.to_string() }, Vec::new()),
        }
    }

    /// Sends a request to the JSON API, with the token.
    pub fn call_api(&self, method: &str, path: &str, body: Option<&Value>) -> ServerResponse {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.send_request(method, path, &headers, body.map(Value::to_string).as_deref())
    }

    fn post_to_test_adapter(&self, path: &str, body: &Value) -> ServerResponse {
        self.send_request("POST", path, &[("content-type", "application/json")], Some(&body.to_string()))
    }

    /// Sends a message; tells whether it was accepted.
    pub fn try_say(&self, body: &Value) -> bool {
        self.post_to_test_adapter("/test/message", body).status == 202
    }

    #[track_caller]
    pub fn say_with(&self, body: &Value) {
        let answer = self.post_to_test_adapter("/test/message", body);
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    #[track_caller]
    pub fn say(&self, conversation: &str, message: &str) {
        self.say_with(&json!({ "conversationId": conversation, "message": message }));
    }

    #[track_caller]
    pub fn post_close(&self, body: &Value) {
        let answer = self.post_to_test_adapter("/test/close", body);
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    /// Returns whether the conversation is idle, and its messages so far.
    #[track_caller]
    pub fn current_messages(&self, conversation: &str) -> (bool, Vec<String>) {
        let answer = self.send_request("GET", &format!("/test/messages/{}", encode_path_part(conversation)), &[], None);
        assert_eq!(answer.status, 200, "{answer:?}");
        let json = answer.json();
        let texts = json["messages"].as_array().expect("messages").iter();
        let texts = texts.map(|message| message["message"].as_str().expect("a text").to_owned());
        (json["idle"] == true, texts.collect())
    }

    /// Waits until the conversation is idle, and returns its messages.
    #[track_caller]
    pub fn wait_until_settled(&self, conversation: &str) -> Vec<String> {
        self.wait_until(conversation, |idle, _| idle)
    }

    /// Waits until `enough` accepts the conversation's state, and returns its messages.
    #[track_caller]
    pub fn wait_until(&self, conversation: &str, enough: impl Fn(bool, &[String]) -> bool) -> Vec<String> {
        let began = Instant::now();
        loop {
            let (idle, messages) = self.current_messages(conversation);
            if enough(idle, &messages) {
                return messages;
            }
            assert!(began.elapsed() < SERVER_TIMEOUT, "{conversation}: {messages:#?} {:#?}", self.take_log_lines());
            std::thread::sleep(poll_interval(began));
        }
    }

    /// Sends a message, waits until the conversation is idle, and returns the new messages.
    #[track_caller]
    pub fn ask(&self, conversation: &str, message: &str) -> Vec<String> {
        self.ask_with(&json!({ "conversationId": conversation, "message": message }))
    }

    #[track_caller]
    pub fn ask_with(&self, body: &Value) -> Vec<String> {
        let conversation = body["conversationId"].as_str().expect("a conversation");
        let before = self.current_messages(conversation).1.len();
        self.say_with(body);
        self.wait_until_settled(conversation).split_off(before)
    }

    /// Subscribes to the server's events from now on.
    pub fn subscribe_events(&self) -> mpsc::Receiver<Value> {
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

    /// Kills the server, as the machine does to a program that takes too much memory.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Asks the server to end, and waits for its end.
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

/// Escapes a conversation's id as a part of an address.
fn encode_path_part(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
