//! Codex: `codex exec --json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::ready::WorkDir;
use grove_environments::settings::{AgentSettings, Permissions};
use serde_json::Value;

use crate::agent::{Agent, AgentError, AgentEvent, Memory, Outcome, Run, SessionWish, Step, Usage};
use crate::json_lines::{Dialect, JsonLines};
use crate::process::Program;
use crate::supervisor::Input;
use crate::tool_summary::about;
use crate::transcript::{Heard, Verdict, shortened};

pub struct CodexAgent {
    name: String,
    settings: AgentSettings,
}

impl CodexAgent {
    pub fn new(name: &str, settings: AgentSettings) -> Self {
        Self { name: name.to_owned(), settings }
    }

    /// A variable as the program gets it.
    fn variable(&self, name: &str) -> Option<PathBuf> {
        let set = self.settings.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        set.filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Where Codex keeps what is its own, as it is called and as it really is.
    fn own_folder(&self) -> Option<[PathBuf; 2]> {
        let folder = self.variable("CODEX_HOME").or_else(|| Some(self.variable("HOME")?.join(".codex")))?;
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        Some([folder, real])
    }

    /// The variables for a run. Codex starts its helper by a name that it makes in its own folder, unless
    /// that lies below the temporary one; the bundled bubblewrap can do without that name, one older than
    /// 0.9 on the path cannot. So such a Codex gets another temporary folder.
    fn env(&self) -> BTreeMap<String, String> {
        let mut env = self.settings.env.clone();
        let usual = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from(SHARED_FOLDERS[0]), PathBuf::from);
        if let (false, Some(own)) = (env.contains_key("TMPDIR"), self.own_folder())
            && let Some(other) = other_temporary_folder(&own, &usual)
        {
            env.insert("TMPDIR".to_owned(), other.to_owned());
        }
        env
    }

    fn command(&self, run: &Run<'_>) -> Vec<String> {
        let mut command = self.settings.command.clone();
        let mut add = |words: &[&str]| command.extend(words.iter().map(|word| (*word).to_owned()));
        // What a run may do stands before `resume`, which does not take it behind.
        add(&["exec", "--json", "--skip-git-repo-check", "--sandbox"]);
        match if run.tools.read_only { Permissions::Read } else { self.settings.permissions } {
            Permissions::Read => add(&["read-only"]),
            Permissions::Edit => {
                add(&["workspace-write"]);
                let roots: Vec<String> = git_folders(run.place).iter().map(|path| format!("{path:?}")).collect();
                add(&["-c", &format!("sandbox_workspace_write.writable_roots=[{}]", roots.join(","))]);
                // Commands may write there, but not what Codex itself starts and reads.
                if self.own_folder().is_some_and(|own| lies_below(&own, Path::new(SHARED_FOLDERS[0]))) {
                    add(&["-c", "sandbox_workspace_write.exclude_slash_tmp=true"]);
                }
            }
            Permissions::Full => add(&["danger-full-access"]),
        }
        if let SessionWish::Resume(id) = &run.session {
            add(&["resume", id]);
        }
        // The prompt is on its standard input.
        add(&["-"]);
        command
    }
}

/// The temporary folders that every machine has; the first is the usual one.
const SHARED_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

/// Whether a folder lies below another one, by one of its names.
fn lies_below(names: &[PathBuf], other: &Path) -> bool {
    names.iter().any(|name| name.starts_with(other))
}

/// A temporary folder that Codex's own does not lie below; `None` if the usual one is such a folder.
fn other_temporary_folder(own: &[PathBuf], usual: &Path) -> Option<&'static str> {
    let is_apart = |folder: &&str| !lies_below(own, Path::new(folder)) && Path::new(folder).is_dir();
    lies_below(own, usual).then(|| SHARED_FOLDERS.into_iter().find(is_apart)).flatten()
}

/// What git needs of the repository in order to commit in a worktree; its settings and hooks are not
/// among it.
fn git_folders(place: &WorkDir) -> Vec<String> {
    let WorkDir::Isolated(ready) = place else { return Vec::new() };
    let folders = ["objects", "refs", "logs"].map(|folder| ready.codebase.git_common_dir.join(folder));
    [ready.entry.clone()].into_iter().chain(folders).map(|path| path.display().to_string()).collect()
}

#[async_trait]
impl Agent for CodexAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn memory(&self) -> Memory {
        Memory::Travels
    }

    async fn run(&self, run: Run<'_>) -> Result<Outcome, AgentError> {
        let program = Program {
            name: &self.name,
            command: self.command(&run),
            env: &self.env(),
            input: Input::Text(run.prompt.to_owned()),
            timeout: self.settings.timeout,
            courtesy: Duration::ZERO,
        };
        let asked_for = match run.session {
            SessionWish::Resume(id) => Some(id),
            SessionWish::New | SessionWish::Named(_) => None,
        };
        let resumes = asked_for.is_some();
        let dialect = Codex { asked_for, before: run.before, complaint: None };
        let budget = self.settings.budget;
        let mut lines = JsonLines { dialect, heard: Heard::new(), budget, says: run.says };
        let exit = program.run(run.place, run.cancel, &mut lines).await?;
        let mut heard = lines.heard;
        if resumes && heard.is_silent() && exit.last_lines.contains("no rollout found") {
            heard.verdict = Some(Verdict::NoSession);
        }
        Ok(heard.outcome(exit))
    }
}

/// What its lines mean.
struct Codex {
    /// The thread that is to go on.
    asked_for: Option<String>,
    /// What the thread had taken before this run: it only tells the sum.
    before: Usage,
    /// The last thing that went wrong; not always the end.
    complaint: Option<String>,
}

impl Dialect for Codex {
    fn take(&mut self, line: &Value, heard: &mut Heard) -> Vec<AgentEvent> {
        match line["type"].as_str().unwrap_or_default() {
            "thread.started" => {
                let Some(id) = line["thread_id"].as_str() else { return Vec::new() };
                // What it does not know it begins anew without a word.
                if self.asked_for.as_ref().is_some_and(|wanted| wanted != id) {
                    heard.verdict = Some(Verdict::NoSession);
                    return Vec::new();
                }
                vec![AgentEvent::Session(id.to_owned())]
            }
            "item.started" => started(&line["item"]).into_iter().collect(),
            "item.updated" => plan(&line["item"]).into_iter().collect(),
            "item.completed" => completed(&line["item"]).into_iter().collect(),
            "turn.completed" => {
                heard.verdict = Some(Verdict::Well);
                let count = |key: &str| line["usage"][key].as_u64().unwrap_or_default();
                vec![AgentEvent::Usage(Usage {
                    input_tokens: count("input_tokens").saturating_sub(self.before.input_tokens),
                    output_tokens: count("output_tokens").saturating_sub(self.before.output_tokens),
                    cost: 0.0,
                })]
            }
            "error" => {
                self.complaint = line["message"].as_str().map(shortened);
                Vec::new()
            }
            "turn.failed" => {
                let why = line["error"]["message"].as_str().map(shortened).or_else(|| self.complaint.take());
                heard.verdict = Some(Verdict::Failed(why.unwrap_or_else(|| "it did not say why".to_owned())));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn started(item: &Value) -> Option<AgentEvent> {
    let used = |name: &str, about: String| Some(AgentEvent::ToolUse { name: name.to_owned(), about });
    match item["type"].as_str()? {
        "command_execution" => used("shell", about(item)),
        "mcp_tool_call" => used(item["tool"].as_str().unwrap_or("tool"), about(&item["arguments"])),
        "web_search" => used("web search", about(item)),
        _ => plan(item),
    }
}

fn completed(item: &Value) -> Option<AgentEvent> {
    match item["type"].as_str()? {
        "agent_message" => Some(AgentEvent::Text(item["text"].as_str()?.to_owned())),
        "command_execution" => {
            let failed = item["exit_code"].as_i64().is_some_and(|code| code != 0);
            Some(AgentEvent::ToolResult { failed, about: shortened(item["aggregated_output"].as_str()?) })
        }
        // Said only when it is done.
        "file_change" => {
            let paths = item["changes"].as_array()?.iter().filter_map(|change| change["path"].as_str());
            let about = shortened(&paths.collect::<Vec<_>>().join(" "));
            Some(AgentEvent::ToolUse { name: "edit".to_owned(), about })
        }
        _ => plan(item),
    }
}

fn plan(item: &Value) -> Option<AgentEvent> {
    if item["type"] != "todo_list" {
        return None;
    }
    let step = |step: &Value| Some(Step { text: step["text"].as_str()?.to_owned(), done: step["completed"] == true });
    Some(AgentEvent::Plan(item["items"].as_array()?.iter().filter_map(step).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_gets_another_temporary_folder_only_where_its_own_folder_lies_below_the_usual_one() {
        let other = |own: &str, usual: &str| other_temporary_folder(&[PathBuf::from(own)], Path::new(usual));
        assert_eq!(other("/home/a/.codex", "/tmp"), None);
        assert_eq!(other("/tmp-like/.codex", "/tmp"), None);
        assert_eq!(other("/tmp/a/.codex", "/tmp/b"), None);
        assert_eq!(other("/tmp/a/.codex", "/tmp"), Some("/var/tmp"));
        assert_eq!(other("/var/tmp/a/.codex", "/var/tmp"), Some("/tmp"));
        assert_eq!(other("/home/a/tmp/.codex", "/home/a/tmp"), Some("/tmp"));
    }
}
