//! Sessions, each a file under `$HOME`.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

pub struct ScriptedSession {
    kind: &'static str,
    pub id: String,
    /// All prompts of the session.
    pub prompts: Vec<String>,
    /// The number of requests to the model.
    pub requests: u64,
    pub cost: f64,
}

impl ScriptedSession {
    /// Makes a new session, and saves it at once.
    pub fn begin_session(kind: &'static str, id: String) -> Self {
        let session = Self { kind, id, prompts: Vec::new(), requests: 0, cost: 0.0 };
        session.save_session();
        session
    }

    pub fn find_session(kind: &'static str, id: &str) -> Option<Self> {
        let value: Value = serde_json::from_slice(&fs::read(session_file(kind, id)).ok()?).ok()?;
        let prompts = value["prompts"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let (requests, cost) = (value["requests"].as_u64()?, value["cost"].as_f64()?);
        Some(Self { kind, id: id.to_owned(), prompts, requests, cost })
    }

    pub fn save_session(&self) {
        let file = session_file(self.kind, &self.id);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for sessions");
        let value = json!({ "prompts": self.prompts, "requests": self.requests, "cost": self.cost });
        fs::write(file, value.to_string()).expect("a session is kept");
    }

    pub fn delete_session(&self) {
        // The file may be deleted already.
        let _ = fs::remove_file(session_file(self.kind, &self.id));
    }
}

fn session_file(kind: &str, id: &str) -> PathBuf {
    let home = std::env::var("HOME").expect("a home");
    PathBuf::from(home).join(".scripted").join(kind).join(id.replace('/', "_"))
}
