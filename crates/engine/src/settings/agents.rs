//! `[agents.NAME]`: the agents that somebody configured.

use std::collections::BTreeMap;
use std::time::Duration;

use toml_edit::{Item, TableLike};

use super::load::{Scope, line_of, suggestion};
use super::value::Shape;
use super::{Settings, SettingsError, keys};

/// How an agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentKind {
    Claude,
    Codex,
    Acp,
    /// Any program: the prompt on its standard input or as an argument, text on its standard output.
    Command,
}

impl AgentKind {
    const ALL: [(&'static str, AgentKind); 4] = [
        ("claude", AgentKind::Claude),
        ("codex", AgentKind::Codex),
        ("acp", AgentKind::Acp),
        ("command", AgentKind::Command),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("command", |(word, _)| word)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    pub kind: AgentKind,
    /// The program and its arguments; `{prompt}` is replaced.
    pub command: Vec<String>,
    pub timeout: Duration,
    pub env: BTreeMap<String, String>,
}

/// How long a run may take when nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

const KEYS: [&str; 4] = ["kind", "command", "timeout", "env"];

impl Settings {
    /// The agents that somebody configured.
    pub fn agents(&self) -> &BTreeMap<String, AgentSettings> {
        &self.agents
    }

    pub(super) fn read_agents(&mut self, item: &Item, text: &str, scope: Scope<'_>) -> Result<(), SettingsError> {
        let wrong = |span: Option<std::ops::Range<usize>>, what: String, hint: String| SettingsError {
            origin: scope.origin(span.map_or(1, |span| line_of(text, span.start))),
            what,
            hint,
        };
        if matches!(scope, Scope::Repository { .. }) {
            let what = "`agents` cannot be set by a repository".to_owned();
            return Err(wrong(item.span(), what, "Set it in GROVE_HOME/config.toml.".to_owned()));
        }
        let example = || "Write [agents.NAME] with `kind` and `command` below.".to_owned();
        let Some(agents) = item.as_table_like() else {
            return Err(wrong(item.span(), "`agents` is a section, not a setting".to_owned(), example()));
        };
        for (name, item) in agents.iter() {
            let Some(table) = item.as_table_like() else {
                return Err(wrong(item.span(), format!("`agents.{name}` is a section, not a setting"), example()));
            };
            let agent = read(name, table, &|span, what, hint| wrong(span, what, hint))?;
            self.agents.insert(name.to_owned(), agent);
        }
        Ok(())
    }
}

type Wrong<'a> = &'a dyn Fn(Option<std::ops::Range<usize>>, String, String) -> SettingsError;

fn read(name: &str, table: &dyn TableLike, wrong: Wrong<'_>) -> Result<AgentSettings, SettingsError> {
    let mut agent =
        AgentSettings { kind: AgentKind::Command, command: Vec::new(), timeout: TIMEOUT, env: BTreeMap::new() };
    let mut span = None;
    for (key, item) in table.iter() {
        span = table.get_key_value(key).and_then(|(key, _)| key.span()).or_else(|| item.span());
        let must = |wanted: &str| {
            wrong(span.clone(), format!("`agents.{name}.{key}` must be {wanted}"), "Correct it.".to_owned())
        };
        match key {
            "kind" => {
                let word = item.as_str().unwrap_or_default();
                let known = AgentKind::ALL.iter().find(|(known, _)| *known == word);
                agent.kind = known.ok_or_else(|| must("one of claude, codex, acp, command"))?.1;
            }
            "command" => {
                let items = item.as_array().ok_or_else(|| must("a list of texts"))?;
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                agent.command = texts.filter(|list| !list.is_empty()).ok_or_else(|| must("a list of texts"))?;
            }
            "timeout" => {
                let read = item.as_str().and_then(|text| Shape::Duration.read(text));
                let seconds = read.and_then(|value| value.as_count());
                agent.timeout = Duration::from_secs(seconds.ok_or_else(|| must(&Shape::Duration.wanted()))?);
            }
            "env" => {
                let variables = item.as_table_like().ok_or_else(|| must("a table of texts"))?;
                for (variable, value) in variables.iter() {
                    let value = value.as_str().ok_or_else(|| must("a table of texts"))?;
                    agent.env.insert(variable.to_owned(), value.to_owned());
                }
            }
            other => {
                let near = keys::nearest(other, KEYS);
                return Err(wrong(span, format!("`agents.{name}.{other}` is not a setting"), suggestion(near)));
            }
        }
    }
    if agent.kind == AgentKind::Command && agent.command.is_empty() {
        let what = format!("`agents.{name}` has no `command`");
        return Err(wrong(span, what, "Give the program and its arguments, as in [\"my-agent\"].".to_owned()));
    }
    Ok(agent)
}
