//! Reading the layers.

use std::io;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

use crate::settings::home::grove_home;
use crate::settings::keys::{self, KEYS};
use crate::settings::{Origin, Settings, SettingsError};

/// What surrounds a start: variables, the file system's hints, the directory.
#[derive(Clone, Debug)]
pub struct Environment {
    pub variables: Vec<(String, String)>,
    pub cwd: PathBuf,
}

impl Environment {
    pub fn of_this_process() -> io::Result<Self> {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Ok(Self { variables: variables.collect(), cwd: std::env::current_dir()? })
    }

    fn get(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// Which keys a file may set.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    All { path: &'a Path },
    Repository { branch: &'a str },
}

impl Scope<'_> {
    pub(super) fn origin(self, line: usize) -> Origin {
        match self {
            Scope::All { path } => Origin::File { path: path.to_owned(), line },
            Scope::Repository { branch } => Origin::Repository { branch: branch.to_owned(), line },
        }
    }
}

impl Settings {
    /// Defaults, the home's file and the environment; flags and the repository's file come later.
    pub fn load(environment: &Environment) -> Result<Self, SettingsError> {
        let home =
            grove_home(|name| environment.get(name), Path::exists, &environment.cwd).ok_or_else(|| SettingsError {
                origin: Origin::Variable("HOME".to_owned()),
                what: "there is no home directory to keep anything in".to_owned(),
                hint: "Set GROVE_HOME to a directory.".to_owned(),
            })?;
        let user_home = environment.get("HOME").map(PathBuf::from);
        let mut settings = Self { home, user_home, entries: Default::default(), agents: Default::default() };
        for key in KEYS {
            if let Some(value) = key.default.and_then(|text| key.shape.read(text)) {
                settings.set(key, value, Origin::Default);
            }
        }
        let file = settings.home.join("config.toml");
        match std::fs::read_to_string(&file) {
            Ok(text) => settings.read_file(&text, Scope::All { path: &file })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(SettingsError {
                    origin: Origin::File { path: file, line: 1 },
                    what: format!("the settings cannot be read: {error}"),
                    hint: "Make the file readable, or take it away.".to_owned(),
                });
            }
        }
        settings.read_variables(environment)?;
        Ok(settings)
    }

    /// The same settings with those of the repository's own file, as it is on `branch`.
    pub fn with_repository_file(&self, text: &str, branch: &str) -> Result<Self, SettingsError> {
        let mut settings = self.clone();
        settings.read_file(text, Scope::Repository { branch })?;
        Ok(settings)
    }

    /// A flag of the command line.
    pub fn with_flag(&mut self, flag: &'static str, name: &'static str, text: &str) -> Result<(), SettingsError> {
        let key = keys::find(name).expect("flags set known keys");
        self.read_text(key, text, Origin::Flag(flag))
    }

    fn read_variables(&mut self, environment: &Environment) -> Result<(), SettingsError> {
        for key in KEYS {
            // The name of its own is the weaker one: the other was chosen for this program.
            let names = key.also.iter().map(|name| (*name).to_owned()).chain([key.variable()]);
            for name in names {
                if let Some(text) = environment.get(&name).filter(|text| !text.is_empty()) {
                    self.read_text(key, &text, Origin::Variable(name))?;
                }
            }
        }
        let sections: Vec<String> =
            KEYS.iter().filter_map(|key| key.name.split_once('.')).map(|(s, _)| s.to_ascii_uppercase()).collect();
        let known: Vec<String> = KEYS.iter().map(super::Key::variable).collect();
        for (name, _) in &environment.variables {
            let section = name.strip_prefix("GROVE_").and_then(|rest| rest.split_once('_')).map(|(section, _)| section);
            let ours = section.is_some_and(|section| sections.iter().any(|known| known == section));
            if ours && !known.contains(name) {
                let near = keys::nearest(name, known.iter().map(String::as_str));
                return Err(SettingsError {
                    origin: Origin::Variable(name.clone()),
                    what: "no setting has this variable".to_owned(),
                    hint: suggestion(near),
                });
            }
        }
        Ok(())
    }

    fn read_text(&mut self, key: &'static super::Key, text: &str, origin: Origin) -> Result<(), SettingsError> {
        let Some(value) = key.shape.read(text) else {
            let shown = if key.secret { String::new() } else { format!(", not `{text}`") };
            return Err(bad_value(key, origin, &shown));
        };
        self.set(key, value, origin);
        Ok(())
    }

    fn read_file(&mut self, text: &str, scope: Scope<'_>) -> Result<(), SettingsError> {
        let document = Document::parse(text.to_owned()).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            SettingsError {
                origin: scope.origin(line),
                what: format!("this is not TOML: {}", error.message().replace('\n', ", ")),
                hint: "See docs/settings.md for examples.".to_owned(),
            }
        })?;
        self.read_table(document.as_table(), "", text, scope)
    }

    fn read_table(
        &mut self,
        table: &dyn TableLike,
        prefix: &str,
        text: &str,
        scope: Scope<'_>,
    ) -> Result<(), SettingsError> {
        for (name, item) in table.iter() {
            let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let span = table.get_key_value(name).and_then(|(key, _)| key.span()).or_else(|| item.span());
            let origin = scope.origin(span.map_or(1, |span| line_of(text, span.start)));
            if full == "agents" {
                self.read_agents(item, text, scope)?;
                continue;
            }
            let section = KEYS.iter().any(|key| key.name.strip_prefix(&full).is_some_and(|rest| rest.starts_with('.')));
            match (keys::find(&full), item) {
                (Some(key), Item::Value(value)) => {
                    if matches!(scope, Scope::Repository { .. }) && !key.in_repository {
                        return Err(SettingsError {
                            origin,
                            what: format!("`{full}` cannot be set by a repository"),
                            hint: "Set it in GROVE_HOME/config.toml.".to_owned(),
                        });
                    }
                    let read = key.shape.read_toml(value).ok_or_else(|| {
                        let written = value.span().and_then(|span| text.get(span)).filter(|_| !key.secret);
                        let shown = written.map(|written| format!(", not `{written}`")).unwrap_or_default();
                        bad_value(key, origin.clone(), &shown)
                    })?;
                    self.set(key, read, origin);
                }
                (Some(key), _) => return Err(bad_value(key, origin, "")),
                (None, item) if section => match item.as_table_like() {
                    Some(table) => self.read_table(table, &full, text, scope)?,
                    None => {
                        return Err(SettingsError {
                            origin,
                            what: format!("`{full}` is a section, not a setting"),
                            hint: format!("Write [{full}] and its settings below."),
                        });
                    }
                },
                _ => {
                    let near = keys::nearest(&full, KEYS.iter().map(|key| key.name));
                    return Err(SettingsError {
                        origin,
                        what: format!("`{full}` is not a setting"),
                        hint: suggestion(near),
                    });
                }
            }
        }
        Ok(())
    }
}

fn bad_value(key: &super::Key, origin: Origin, shown: &str) -> SettingsError {
    SettingsError {
        origin,
        what: format!("`{}` must be {}{shown}", key.name, key.shape.wanted()),
        hint: match key.default {
            Some(default) if !default.is_empty() => format!("Correct it, or take it away for the default ({default})."),
            _ => "Correct it, or take it away.".to_owned(),
        },
    }
}

pub(super) fn suggestion(near: Option<&str>) -> String {
    match near {
        Some(name) => format!("Did you mean `{name}`?"),
        None => "`grove config show` lists all settings.".to_owned(),
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use grove_git::base::FetchPolicy;

    use super::*;

    struct Case {
        dir: tempfile::TempDir,
        variables: Vec<(String, String)>,
    }

    impl Case {
        fn new(config: &str, variables: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("config.toml"), config).unwrap();
            let mut variables: Vec<_> = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            variables.push(("GROVE_HOME".to_owned(), dir.path().display().to_string()));
            variables.push(("HOME".to_owned(), "/home/me".to_owned()));
            Self { dir, variables }
        }

        fn load(&self) -> Result<Settings, SettingsError> {
            Settings::load(&Environment { variables: self.variables.clone(), cwd: "/".into() })
        }

        fn error(&self) -> String {
            let error = self.load().unwrap_err();
            let file = self.dir.path().display().to_string();
            format!("{error} | {}", error.hint).replace(&file, "HOME")
        }
    }

    #[test]
    fn the_later_layer_wins() {
        let file = "[worktree]\nbranch_prefix = \"file/\"\nbase = \"~/trees\"\nfetch = \"never\"\n";
        let case = Case::new(
            file,
            &[("GROVE_WORKTREE_FETCH", "always"), ("WORKTREE_BASE", "/w"), ("GROVE_WORKTREE_BASE", "/own")],
        );
        let mut settings = case.load().unwrap();
        assert_eq!(settings.branch_prefix(), "file/");
        assert_eq!(settings.fetch(), FetchPolicy::Always);
        assert_eq!(settings.worktree_base(), Path::new("/own"));
        let repository = "worktree.branch_prefix = \"repo/\"\nworktree.fetch = \"never\"\nworktree.copy = [\".env\"]\n";
        settings = settings.with_repository_file(repository, "main").unwrap();
        assert_eq!(settings.branch_prefix(), "repo/", "over the file");
        assert_eq!(settings.fetch(), FetchPolicy::Always, "under the variable");
        assert_eq!(settings.copy(), [".env"]);
        settings.with_flag("--fetch", "worktree.fetch", "never").unwrap();
        assert_eq!(settings.fetch(), FetchPolicy::Never);
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let settings = Case::new("", &[]).load().unwrap();
        assert!(settings.store_url().starts_with("sqlite:///") && settings.store_url().ends_with("/grove.db"));
        assert_eq!(settings.worktree_base(), settings.home().join("worktrees"));
        assert_eq!(settings.min_free_disk(), 1 << 30);
        assert!(
            settings.submodules() == crate::settings::Submodules::CheckOut
                && settings.copy().is_empty()
                && settings.remote().is_none()
        );
        assert!(
            KEYS.iter().all(|key| key.default.is_none_or(|text| key.shape.read(text).is_some())),
            "defaults are valid"
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_file_line_and_a_suggestion() {
        let error = |config: &str| Case::new(config, &[]).error();
        assert_eq!(
            error("[worktree]\nlayout = \"owner\"\nbase_brach = \"x\"\n"),
            "HOME/config.toml:3: `worktree.base_brach` is not a setting | Did you mean `worktree.base_branch`?"
        );
        assert_eq!(
            error("# hi\n[limits]\nmax_worktrees_per_codebase = \"many\"\n"),
            "HOME/config.toml:3: `limits.max_worktrees_per_codebase` must be a whole number, 1 or more, not `\"many\"` | Correct it, or take it away for the default (25)."
        );
        assert_eq!(
            error("worktree = 3\n"),
            "HOME/config.toml:1: `worktree` is a section, not a setting | Write [worktree] and its settings below."
        );
        assert_eq!(
            error("stale_days = 3\n"),
            "HOME/config.toml:1: `stale_days` is not a setting | Did you mean `cleanup.stale_days`?"
        );
        assert!(error("\n[worktree\n").starts_with("HOME/config.toml:2: this is not TOML"));
        assert!(error("[zzz]\nq = 1\n").contains("`zzz` is not a setting"));
        assert_eq!(
            error("[worktree.fetch]\nx = 1\n"),
            "HOME/config.toml:1: `worktree.fetch` must be one of auto, always, never | Correct it, or take it away for the default (auto)."
        );
    }

    #[test]
    fn variables_are_checked_too() {
        let error = |name: &str, value: &str| Case::new("", &[(name, value)]).error();
        assert_eq!(
            error("STALE_THRESHOLD_DAYS", "abc"),
            "$STALE_THRESHOLD_DAYS: `cleanup.stale_days` must be a whole number, 1 or more, not `abc` | Correct it, or take it away for the default (14)."
        );
        assert_eq!(
            error("GROVE_WORKTREE_FECH", "never"),
            "$GROVE_WORKTREE_FECH: no setting has this variable | Did you mean `GROVE_WORKTREE_FETCH`?"
        );
        assert!(!error("DATABASE_URL", "mysql://me:secret@h/x").contains("secret"));
        // What an init script or an agent gets is not a setting.
        assert!(Case::new("", &[("GROVE_WORKTREE", "/x"), ("GROVE_BRANCH", "x"), ("GROVE_REPO", "/r")]).load().is_ok());
    }

    #[test]
    fn a_repository_sets_only_what_it_may() {
        let settings = Case::new("", &[]).load().unwrap();
        let error = settings.with_repository_file("[store]\nurl = \"sqlite:///tmp/x\"\n", "main").unwrap_err();
        assert_eq!(error.to_string(), ".grove/config.toml:2 on main: `store.url` cannot be set by a repository");
    }
}
