//! The OpenAPI document describes what the server answers.

use std::collections::BTreeSet;

use grove_testkit::{ServerResponse, TestEngine, TestServer, TestStore};
use serde_json::{Map, Value, json};

use super::start_test_server;

/// The document of a running server.
struct ApiDocument(Value);

impl ApiDocument {
    fn load(server: &TestServer) -> Self {
        Self(server.call_api("GET", "/api/openapi.json", None).json())
    }

    /// Checks an answer against the schema that the document gives for its status.
    #[track_caller]
    fn check_answer(&self, method: &str, path: &str, answer: &ServerResponse) {
        let operation = &self.0["paths"][path][method.to_lowercase()];
        let response = &operation["responses"][answer.status.to_string()];
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} does not document {answer:?}");
        let wrong = self.find_mismatch(schema, &answer.json());
        assert!(wrong.is_none(), "{method} {path}: {wrong:?} in {}", answer.text);
    }

    /// Returns what does not fit: a type, a word, a required key that is missing, a key that is not declared.
    fn find_mismatch(&self, schema: &Value, value: &Value) -> Option<String> {
        let variants = self.expand(schema);
        let mut wrong = variants.iter().map(|variant| self.mismatch_with(variant, value));
        let first = wrong.next()?;
        if wrong.any(|wrong| wrong.is_none()) { None } else { first }
    }

    /// Returns the schemas of which one has to fit, without references and combinations.
    fn expand(&self, schema: &Value) -> Vec<Map<String, Value>> {
        if let Some(target) = schema["$ref"].as_str() {
            let target = self.0.pointer(target.strip_prefix('#').unwrap());
            return self.expand(target.unwrap_or_else(|| panic!("{schema} leads nowhere")));
        }
        if let Some(variants) = schema["oneOf"].as_array() {
            return variants.iter().flat_map(|variant| self.expand(variant)).collect();
        }
        let Some(parts) = schema["allOf"].as_array() else {
            return vec![schema.as_object().unwrap_or_else(|| panic!("{schema} is no schema")).clone()];
        };
        parts.iter().map(|part| self.expand(part)).fold(vec![Map::new()], |wholes, variants| {
            let merged = |whole: &Map<_, _>| variants.iter().map(|part| merge(whole, part)).collect::<Vec<_>>();
            wholes.iter().flat_map(merged).collect()
        })
    }

    fn mismatch_with(&self, schema: &Map<String, Value>, value: &Value) -> Option<String> {
        let kinds = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.clone(),
            Some(kind) => vec![kind.clone()],
            None => return Some(format!("{schema:?} has no type")),
        };
        if !kinds.contains(&json!(kind_of(value))) {
            return Some(format!("{value} is not {kinds:?}"));
        }
        if schema.get("enum").is_some_and(|words| !words.as_array().unwrap().contains(value)) {
            return Some(format!("{value} is none of {}", schema["enum"]));
        }
        match value {
            Value::Array(items) => items.iter().find_map(|item| self.find_mismatch(&schema["items"], item)),
            Value::Object(fields) => {
                let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
                let missing = required.filter_map(Value::as_str).find(|key| !fields.contains_key(*key));
                missing.map(|key| format!("`{key}` is missing")).or_else(|| {
                    fields.iter().find_map(|(key, value)| {
                        let declared = schema.get("properties").and_then(|properties| properties.get(key));
                        match declared.or(schema.get("additionalProperties")) {
                            Some(schema) => self.find_mismatch(schema, value).map(|wrong| format!("{key}: {wrong}")),
                            None => Some(format!("`{key}` is not declared")),
                        }
                    })
                })
            }
            _ => None,
        }
    }
}

fn merge(whole: &Map<String, Value>, part: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = whole.clone();
    for (key, value) in part {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(before)), Value::Object(more)) => before.extend(more.clone()),
            (Some(Value::Array(before)), Value::Array(more)) => before.extend(more.clone()),
            _ => _ = merged.insert(key.clone(), value.clone()),
        }
    }
    merged
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[test]
fn the_document_is_whole() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let ApiDocument(document) = ApiDocument::load(&server);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["security"], json!([{ "token": [] }]));
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let operations = document["paths"].as_object().unwrap().iter();
    let operations = operations.flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    let mut ids = BTreeSet::new();
    for (name, operation) in operations {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name} shares its id");
        assert!(operation["summary"].as_str().is_some_and(|summary| summary.ends_with('.')), "{name}");
        let responses = operation["responses"].as_object().unwrap();
        let described = |response: &Value| response["content"].as_object().is_some_and(|content| !content.is_empty());
        assert!(responses.keys().any(|status| status.starts_with('2')), "{name}");
        assert!(responses.values().all(described), "{name}: {responses:#?}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let in_path = parameters.filter(|parameter| parameter["in"] == "path").count();
        assert_eq!(in_path, name.matches('{').count(), "{name} and its parameters");
    }
    assert!(ids.len() > 20, "{ids:?}");
    let text = document.to_string();
    for target in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0) {
        assert!(document.pointer(target).is_some(), "{target} is not there");
    }
}

#[test]
fn answers_are_as_documented() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let document = ApiDocument::load(&server);
    let call = |method: &str, path: &str, query: &str, id: &str, body: Option<&Value>, status: u16| {
        let answer = server.call_api(method, &format!("{}{query}", path.replace("{id}", id)), body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        document.check_answer(method, path, &answer);
        answer.json()
    };
    let get = |path: &str| call("GET", path, "", "", None, 200);
    get("/health");
    get("/ready");
    assert_eq!(get("/api/codebases").as_array().unwrap().len(), 1);
    assert_eq!(get("/api/status")["worktrees"]["total"], 0);

    let (worktrees, worktree) = ("/api/worktrees", "/api/worktrees/{id}");
    let made = call("POST", worktrees, "", "", Some(&json!({ "name": "fix" })), 201);
    let (id, path) = (made["id"].as_str().unwrap(), made["path"].as_str().unwrap());
    let post = |action: &str| call("POST", &format!("{worktree}/{action}"), "", id, None, 200);
    call("POST", worktrees, "", "", Some(&json!({})), 400);
    call("POST", worktrees, "", "", Some(&json!({ "name": "x", "codebase": "none" })), 404);
    call("GET", worktree, "", id, None, 200);
    call("GET", worktree, "", "nothing", None, 404);
    call("GET", worktrees, "?all=perhaps", "", None, 400);
    std::fs::write(format!("{path}/file"), "x").unwrap();
    assert_eq!(get(worktrees)[0]["state"], "dirty");
    let plan = call("GET", &format!("{worktree}/plan"), "", id, None, 200);
    assert!(plan["reasons"][0]["code"] == "untracked_files" && plan["branch_fate"]["fate"] == "goes", "{plan}");
    let refused = call("DELETE", worktree, "", id, None, 409);
    assert_eq!(refused["error"]["reasons"][0]["code"], "untracked_files");
    assert_eq!(call("DELETE", worktree, "?force=true", id, None, 200)["removed"], true);
    assert_eq!(call("GET", worktrees, "?all=true", "", None, 200).as_array().unwrap().len(), 1);
    post("undo");
    post("hibernate");
    post("wake");
    grove.repo.git_in(path.as_ref(), &["add", "-A"]);
    grove.repo.git_in(path.as_ref(), &["commit", "-q", "-m", "work"]);
    assert_eq!(post("finish")["merged_into"], "main");
    let given_up = call("POST", worktrees, "", "", Some(&json!({ "kind": "issue", "id": "7" })), 201);
    let given_up = given_up["id"].as_str().unwrap();
    call("POST", "/api/worktrees/{id}/abort", "", given_up, None, 200);

    let messages = "/api/conversations/{id}/messages";
    let accepted = call("POST", messages, "", "web-1", Some(&json!({ "message": "echo hi" })), 202);
    server.wait_until_settled("web-1");
    let said = call("GET", messages, "", "web-1", None, 200);
    let of = |role: &str, key: &str| {
        said["messages"].as_array().unwrap().iter().any(|m| m["role"] == role && !m[key].is_null())
    };
    assert!(of("user", "messageId") && of("user", "status") && of("grove", "answers"), "{said}");
    let only = format!("?message={}", accepted["messageId"].as_str().unwrap());
    call("GET", messages, &only, "web-1", None, 200);
    call("GET", messages, "?message=none", "web-1", None, 404);
    assert_eq!(get("/api/conversations")[0]["id"], "web-1");
    call("POST", messages, "", "web-1", Some(&json!({ "message": " " })), 400);

    call("POST", "/test/message", "", "", Some(&json!({ "conversationId": "a/b", "message": "echo hi" })), 202);
    server.wait_until_settled("a/b");
    assert_eq!(call("GET", "/test/messages/{id}", "", "a/b", None, 200)["idle"], true);
    call("DELETE", "/test/messages/{id}", "", "a/b", None, 200);
    call("POST", "/test/close", "", "", Some(&json!({ "conversationId": "a/b" })), 202);
    call("POST", "/test/close", "", "", Some(&json!({})), 400);
    call("POST", "/webhooks/github", "", "", Some(&json!({})), 404);
    call("POST", "/api/links", "", "", None, 200);
    call("DELETE", "/api/session", "", "", None, 200);
    let locked = server.send_request("GET", "/api/status", &[], None);
    assert_eq!(locked.status, 401);
    document.check_answer("GET", "/api/status", &locked);
}
