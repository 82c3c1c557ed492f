//! `[agents.NAME]`: the configured agents.

use std::collections::BTreeMap;
use std::time::Duration;

use toml_edit::{Item, TableLike};

use crate::settings::agent_catalog::{KnownAgent, find_known_agent, of_kind};
use crate::settings::load::{SettingsScope, line_of, suggestion_hint};
use crate::settings::value::SettingShape;
use crate::settings::{Settings, SettingsError, keys};

/// The kind of an agent, which decides how Grovekeeper communicates with it.
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

/// The actions that an agent may take without asking, as far as its own program can restrict it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentPermissions {
    /// Read, and change nothing.
    Read,
    /// Change files of its worktree.
    Edit,
    /// Do everything.
    Full,
}

impl AgentPermissions {
    /// Our own words, and those of the programs that people know them from.
    const ALL: [(&'static str, AgentPermissions); 9] = [
        ("read", AgentPermissions::Read),
        ("edit", AgentPermissions::Edit),
        ("full", AgentPermissions::Full),
        ("plan", AgentPermissions::Read),
        ("acceptEdits", AgentPermissions::Edit),
        ("bypassPermissions", AgentPermissions::Full),
        ("read-only", AgentPermissions::Read),
        ("workspace-write", AgentPermissions::Edit),
        ("danger-full-access", AgentPermissions::Full),
    ];
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    pub kind: AgentKind,
    /// The program and its arguments; `{prompt}` is replaced. Empty: the known program of its kind.
    pub command: Vec<String>,
    pub timeout: Duration,
    pub env: BTreeMap<String, String>,
    pub permissions: AgentPermissions,
    /// The paths that it may write to besides its worktree.
    pub writable: Vec<String>,
    /// The maximum cost of one run, in US dollars.
    pub budget: Option<f64>,
}

impl AgentSettings {
    /// Returns an agent of this kind with default settings.
    pub fn for_kind(kind: AgentKind) -> Self {
        let (command, env, writable) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self {
            kind,
            command,
            timeout: DEFAULT_RUN_TIMEOUT,
            env,
            permissions: AgentPermissions::Edit,
            writable,
            budget: None,
        }
    }

    /// Returns the settings of a known agent that is not configured.
    pub fn of_known(known: &KnownAgent) -> Self {
        let command = known.command.iter().map(|part| (*part).to_owned()).collect();
        Self { command, ..Self::for_kind(known.kind) }
    }
}

/// The time limit of a run if none is configured.
const DEFAULT_RUN_TIMEOUT: Duration = Duration::from_secs(60 * 60);

const AGENT_KEYS: [&str; 7] = ["kind", "command", "timeout", "env", "permissions", "writable", "budget"];

impl Settings {
    /// Returns the configured agents.
    pub fn configured_agents(&self) -> &BTreeMap<String, AgentSettings> {
        &self.agents
    }

    pub(super) fn read_agents(
        &mut self,
        item: &Item,
        text: &str,
        scope: SettingsScope<'_>,
    ) -> Result<(), SettingsError> {
        let wrong = |span: Option<std::ops::Range<usize>>, what: String, hint: String| SettingsError {
            origin: scope.origin_at_line(span.map_or(1, |span| line_of(text, span.start))),
            what,
            hint,
        };
        if matches!(scope, SettingsScope::Repository { .. }) {
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
            let agent = read_agent(name, table, &|span, what, hint| wrong(span, what, hint))?;
            self.agents.insert(name.to_owned(), agent);
        }
        Ok(())
    }
}

type AgentErrorBuilder<'a> = &'a dyn Fn(Option<std::ops::Range<usize>>, String, String) -> SettingsError;

fn read_agent(name: &str, table: &dyn TableLike, wrong: AgentErrorBuilder<'_>) -> Result<AgentSettings, SettingsError> {
    let mut agent = find_known_agent(name)
        .map_or_else(|| AgentSettings::for_kind(AgentKind::Command), |k| AgentSettings::for_kind(k.kind));
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
                agent.command =
                    text_list(item).filter(|list| !list.is_empty()).ok_or_else(|| must("a list of texts"))?;
            }
            "writable" => agent.writable = text_list(item).ok_or_else(|| must("a list of paths"))?,
            "permissions" => {
                let word = item.as_str().unwrap_or_default();
                let known = AgentPermissions::ALL.iter().find(|(known, _)| *known == word);
                agent.permissions = known.ok_or_else(|| must("one of read, edit, full"))?.1;
            }
            "budget" => {
                let number = item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64));
                let number = number.filter(|dollars| dollars.is_finite() && *dollars > 0.0);
                agent.budget = Some(number.ok_or_else(|| must("a number of US dollars, as in 2.50"))?);
            }
            "timeout" => {
                let shape = SettingShape::Duration { least: 1 };
                let seconds = item.as_str().and_then(|text| shape.parse_value(text)).and_then(|value| value.as_count());
                agent.timeout = Duration::from_secs(seconds.ok_or_else(|| must(&shape.expected_value_text()))?);
            }
            "env" => {
                let variables = item.as_table_like().ok_or_else(|| must("a table of texts"))?;
                for (variable, value) in variables.iter() {
                    let value = value.as_str().ok_or_else(|| must("a table of texts"))?;
                    agent.env.insert(variable.to_owned(), value.to_owned());
                }
            }
            other => {
                let near = keys::nearest_name(other, AGENT_KEYS);
                return Err(wrong(span, format!("`agents.{name}.{other}` is not a setting"), suggestion_hint(near)));
            }
        }
    }
    let own = find_known_agent(name).filter(|known| known.kind == agent.kind);
    if let (true, Some(known)) = (agent.command.is_empty(), own.or(of_kind(agent.kind))) {
        agent.command = known.command.iter().map(|part| (*part).to_owned()).collect();
    }
    if agent.command.is_empty() {
        let what = format!("`agents.{name}` has no `command`");
        return Err(wrong(span, what, "Give the program and its arguments, as in [\"my-agent\"].".to_owned()));
    }
    Ok(agent)
}

fn text_list(item: &Item) -> Option<Vec<String>> {
    item.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}
