//! Codex: `codex exec --json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use grove_environments::ready::WorkDir;
use grove_environments::settings::{AgentPermissions, AgentSettings};
use serde_json::Value;

use crate::agent::{
    Agent, AgentError, AgentEvent, AgentRun, PlanStep, RunOutcome, RunUsage, SessionMemory, SessionRequest,
};
use crate::json_lines::{JsonLinesListener, LineParser};
use crate::process::AgentProgram;
use crate::supervisor::AgentInput;
use crate::tool_summary::main_parameter;
use crate::transcript::{ReportedEnd, Transcript, shorten_line};

pub struct CodexAgent {
    name: String,
    settings: AgentSettings,
}

impl CodexAgent {
    pub fn new(name: &str, settings: AgentSettings) -> Self {
        Self { name: name.to_owned(), settings }
    }

    /// Returns a variable as the program gets it.
    fn variable_path(&self, name: &str) -> Option<PathBuf> {
        let set = self.settings.env.get(name).cloned().or_else(|| std::env::var(name).ok());
        set.filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Returns the path of Codex's own folder, as configured and with symbolic links resolved.
    fn own_folder(&self) -> Option<[PathBuf; 2]> {
        let folder = self.variable_path("CODEX_HOME").or_else(|| Some(self.variable_path("HOME")?.join(".codex")))?;
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        Some([folder, real])
    }

    /// Returns the variables for a run. Codex starts its helper through a name that it creates in its own
    /// folder, unless that folder is below the temporary folder. The bundled bubblewrap works without that
    /// name; a bubblewrap older than 0.9 on the path does not. So such a Codex gets another temporary
    /// folder.
    fn run_variables(&self) -> BTreeMap<String, String> {
        let mut env = self.settings.env.clone();
        let usual =
            std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from(SHARED_TEMPORARY_FOLDERS[0]), PathBuf::from);
        if let (false, Some(own)) = (env.contains_key("TMPDIR"), self.own_folder())
            && let Some(other) = other_temporary_folder(&own, &usual)
        {
            env.insert("TMPDIR".to_owned(), other.to_owned());
        }
        env
    }

    fn build_command(&self, run: &AgentRun<'_>) -> Vec<String> {
        let mut command = self.settings.command.clone();
        let mut add = |words: &[&str]| command.extend(words.iter().map(|word| (*word).to_owned()));
        // The sandbox options go before `resume`, which does not accept them after it.
        add(&["exec", "--json", "--skip-git-repo-check", "--sandbox"]);
        match if run.tools.read_only { AgentPermissions::Read } else { self.settings.permissions } {
            AgentPermissions::Read => add(&["read-only"]),
            AgentPermissions::Edit => {
                add(&["workspace-write"]);
                let roots: Vec<String> = git_folders(run.place).iter().map(|path| format!("{path:?}")).collect();
                add(&["-c", &format!("sandbox_workspace_write.writable_roots=[{}]", roots.join(","))]);
                // Commands may write to this folder, but must not change the files that Codex itself starts
                // and reads.
                if self.own_folder().is_some_and(|own| lies_below(&own, Path::new(SHARED_TEMPORARY_FOLDERS[0]))) {
                    add(&["-c", "sandbox_workspace_write.exclude_slash_tmp=true"]);
                }
            }
            AgentPermissions::Full => add(&["danger-full-access"]),
        }
        if let SessionRequest::Resume(id) = &run.session {
            add(&["resume", id]);
        }
        // Codex reads the prompt from its standard input.
        add(&["-"]);
        command
    }
}

/// The temporary folders that every machine has; the first is the usual one.
const SHARED_TEMPORARY_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

/// Tells whether one of the names of a folder is below another folder.
fn lies_below(names: &[PathBuf], other: &Path) -> bool {
    names.iter().any(|name| name.starts_with(other))
}

/// Returns a temporary folder that does not contain Codex's own folder; `None` if the usual one does not.
fn other_temporary_folder(own: &[PathBuf], usual: &Path) -> Option<&'static str> {
    let is_apart = |folder: &&str| !lies_below(own, Path::new(folder)) && Path::new(folder).is_dir();
    lies_below(own, usual).then(|| SHARED_TEMPORARY_FOLDERS.into_iter().find(is_apart)).flatten()
}

/// Returns the folders of the repository that git writes to when it commits in a worktree. The settings and
/// hooks of the repository are not included.
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

    fn agent_settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn session_memory(&self) -> SessionMemory {
        SessionMemory::Travels
    }

    async fn run_turn(&self, run: AgentRun<'_>) -> Result<RunOutcome, AgentError> {
        let program = AgentProgram {
            name: &self.name,
            command: self.build_command(&run),
            env: &self.run_variables(),
            input: AgentInput::Text(run.prompt.to_owned()),
            timeout: self.settings.timeout,
            courtesy: Duration::ZERO,
        };
        let asked_for = match run.session {
            SessionRequest::Resume(id) => Some(id),
            SessionRequest::New | SessionRequest::Named(_) => None,
        };
        let resumes = asked_for.is_some();
        let dialect = CodexParser { asked_for, before: run.before, complaint: None };
        let budget = self.settings.budget;
        let mut lines = JsonLinesListener { dialect, transcript: Transcript::new(), budget, says: run.says };
        let exit = program.run_supervised(run.place, run.cancel, &mut lines).await?;
        let mut transcript = lines.transcript;
        if resumes && transcript.is_silent() && exit.last_lines.contains("no rollout found") {
            transcript.verdict = Some(ReportedEnd::NoSession);
        }
        Ok(transcript.into_run_outcome(exit))
    }
}

/// Parses the lines of Codex's output.
struct CodexParser {
    /// The id of the thread to continue.
    asked_for: Option<String>,
    /// The usage of the thread before this run: Codex reports only the sum.
    before: RunUsage,
    /// The last error; it does not always end the run.
    complaint: Option<String>,
}

impl LineParser for CodexParser {
    fn parse_line(&mut self, line: &Value, transcript: &mut Transcript) -> Vec<AgentEvent> {
        match line["type"].as_str().unwrap_or_default() {
            "thread.started" => {
                let Some(id) = line["thread_id"].as_str() else { return Vec::new() };
                // Codex silently starts a new thread if it does not know the requested one.
                if self.asked_for.as_ref().is_some_and(|wanted| wanted != id) {
                    transcript.verdict = Some(ReportedEnd::NoSession);
                    return Vec::new();
                }
                vec![AgentEvent::Session(id.to_owned())]
            }
            "item.started" => parse_started_item(&line["item"]).into_iter().collect(),
            "item.updated" => parse_plan(&line["item"]).into_iter().collect(),
            "item.completed" => parse_completed_item(&line["item"]).into_iter().collect(),
            "turn.completed" => {
                transcript.verdict = Some(ReportedEnd::Well);
                let count = |key: &str| line["usage"][key].as_u64().unwrap_or_default();
                vec![AgentEvent::Usage(RunUsage {
                    input_tokens: count("input_tokens").saturating_sub(self.before.input_tokens),
                    output_tokens: count("output_tokens").saturating_sub(self.before.output_tokens),
                    cost: 0.0,
                })]
            }
            "error" => {
                self.complaint = line["message"].as_str().map(shorten_line);
                Vec::new()
            }
            "turn.failed" => {
                let why = line["error"]["message"].as_str().map(shorten_line).or_else(|| self.complaint.take());
                transcript.verdict = Some(ReportedEnd::Failed(why.unwrap_or_else(|| "it did not say why".to_owned())));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn parse_started_item(item: &Value) -> Option<AgentEvent> {
    let used = |name: &str, about: String| Some(AgentEvent::ToolUse { name: name.to_owned(), about });
    match item["type"].as_str()? {
        "command_execution" => used("shell", main_parameter(item)),
        "mcp_tool_call" => used(item["tool"].as_str().unwrap_or("tool"), main_parameter(&item["arguments"])),
        "web_search" => used("web search", main_parameter(item)),
        _ => parse_plan(item),
    }
}

fn parse_completed_item(item: &Value) -> Option<AgentEvent> {
    match item["type"].as_str()? {
        "agent_message" => Some(AgentEvent::Text(item["text"].as_str()?.to_owned())),
        "command_execution" => {
            let failed = item["exit_code"].as_i64().is_some_and(|code| code != 0);
            Some(AgentEvent::ToolResult { failed, about: shorten_line(item["aggregated_output"].as_str()?) })
        }
        // Codex reports this item only when it is complete.
        "file_change" => {
            let paths = item["changes"].as_array()?.iter().filter_map(|change| change["path"].as_str());
            let about = shorten_line(&paths.collect::<Vec<_>>().join(" "));
            Some(AgentEvent::ToolUse { name: "edit".to_owned(), about })
        }
        _ => parse_plan(item),
    }
}

fn parse_plan(item: &Value) -> Option<AgentEvent> {
    if item["type"] != "todo_list" {
        return None;
    }
    let step =
        |step: &Value| Some(PlanStep { text: step["text"].as_str()?.to_owned(), done: step["completed"] == true });
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
