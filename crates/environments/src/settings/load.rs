//! Reads the layers of settings.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

use crate::settings::home::{GroveHome, HomeProbe, grove_home};
use crate::settings::keys::{self, SETTING_KEYS};
use crate::settings::{FileVersion, SETTINGS_FILE, SettingOrigin, Settings, SettingsError};

/// The surroundings of a start: variables, hints of the file system, the directory.
#[derive(Clone, Debug)]
pub struct ProcessEnvironment {
    pub variables: Vec<(String, String)>,
    pub cwd: PathBuf,
}

impl ProcessEnvironment {
    pub fn of_this_process() -> io::Result<Self> {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Ok(Self { variables: variables.collect(), cwd: std::env::current_dir()? })
    }

    fn variable_value(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

/// The keys that a file may set.
#[derive(Clone, Copy)]
pub(super) enum SettingsScope<'a> {
    All { path: &'a Path },
    Repository { branch: &'a str },
}

impl SettingsScope<'_> {
    pub(super) fn origin_at_line(self, line: usize) -> SettingOrigin {
        match self {
            SettingsScope::All { path } => SettingOrigin::File { path: path.to_owned(), line },
            SettingsScope::Repository { branch } => SettingOrigin::Repository { branch: branch.to_owned(), line },
        }
    }
}

impl Settings {
    /// Loads defaults, the file in GROVE_HOME and the variables; flags and the repository's file come later.
    pub fn load_settings(environment: &ProcessEnvironment) -> Result<Self, SettingsError> {
        let is_writable =
            |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
        let probe = HomeProbe { exists: &Path::exists, is_writable: &is_writable };
        let found = grove_home(|name| environment.variable_value(name), &probe, &environment.cwd);
        let GroveHome { path: home, instead_of_container_home } = found.ok_or_else(|| SettingsError {
            origin: SettingOrigin::Variable("HOME".to_owned()),
            what: "there is no home directory to keep anything in".to_owned(),
            hint: "Set GROVE_HOME to a directory.".to_owned(),
        })?;
        let user_home = environment.variable_value("HOME").map(PathBuf::from);
        let mut settings = Self {
            home,
            instead_of_container_home,
            user_home,
            entries: Default::default(),
            agents: Default::default(),
            file_version: None,
        };
        for key in SETTING_KEYS {
            if let Some(value) = key.default.and_then(|text| key.shape.parse_value(text)) {
                settings.set_if_stronger(key, value, SettingOrigin::Default);
            }
        }
        let file = settings.home.join(SETTINGS_FILE);
        // Before it is read: an edit meanwhile is noticed later.
        settings.file_version = file_version(&file);
        match std::fs::read_to_string(&file) {
            Ok(text) => settings.read_file(&text, SettingsScope::All { path: &file })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(SettingsError {
                    origin: SettingOrigin::File { path: file, line: 1 },
                    what: format!("the settings cannot be read: {error}"),
                    hint: "Make the file readable, or take it away.".to_owned(),
                });
            }
        }
        settings.read_variables(environment)?;
        Ok(settings)
    }

    /// Returns these settings with those of the repository's own file, as it is on `branch`.
    pub fn with_repository_file(&self, text: &str, branch: &str) -> Result<Self, SettingsError> {
        let mut settings = self.clone();
        settings.read_file(text, SettingsScope::Repository { branch })?;
        Ok(settings)
    }

    /// Sets a value from a command-line flag.
    pub fn with_flag(&mut self, flag: &'static str, name: &'static str, text: &str) -> Result<(), SettingsError> {
        let key = keys::find_key(name).expect("flags set known keys");
        self.read_text(key, text, SettingOrigin::Flag(flag))
    }

    fn read_variables(&mut self, environment: &ProcessEnvironment) -> Result<(), SettingsError> {
        for key in SETTING_KEYS {
            // The special name is the weaker one: the other was chosen for this program.
            let names = key.also.iter().map(|name| (*name).to_owned()).chain([key.variable_name()]);
            for name in names {
                if let Some(text) = environment.variable_value(&name).filter(|text| !text.is_empty()) {
                    self.read_text(key, &text, SettingOrigin::Variable(name))?;
                }
            }
        }
        let sections: Vec<String> = SETTING_KEYS
            .iter()
            .filter_map(|key| key.name.split_once('.'))
            .map(|(s, _)| s.to_ascii_uppercase())
            .collect();
        let known: Vec<String> = SETTING_KEYS.iter().map(super::SettingKey::variable_name).collect();
        for (name, _) in &environment.variables {
            let section = name.strip_prefix("GROVE_").and_then(|rest| rest.split_once('_')).map(|(section, _)| section);
            let ours = section.is_some_and(|section| sections.iter().any(|known| known == section));
            if ours && !known.contains(name) {
                let near = keys::nearest_name(name, known.iter().map(String::as_str));
                return Err(SettingsError {
                    origin: SettingOrigin::Variable(name.clone()),
                    what: "no setting has this variable".to_owned(),
                    hint: suggestion_hint(near),
                });
            }
        }
        Ok(())
    }

    fn read_text(
        &mut self,
        key: &'static super::SettingKey,
        text: &str,
        origin: SettingOrigin,
    ) -> Result<(), SettingsError> {
        let Some(value) = key.shape.parse_value(text) else {
            let shown = if key.secret { String::new() } else { format!(", not `{text}`") };
            return Err(bad_value(key, origin, &shown));
        };
        self.set_if_stronger(key, value, origin);
        Ok(())
    }

    fn read_file(&mut self, text: &str, scope: SettingsScope<'_>) -> Result<(), SettingsError> {
        let document = Document::parse(text.to_owned()).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            SettingsError {
                origin: scope.origin_at_line(line),
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
        scope: SettingsScope<'_>,
    ) -> Result<(), SettingsError> {
        for (name, item) in table.iter() {
            let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let span = table.get_key_value(name).and_then(|(key, _)| key.span()).or_else(|| item.span());
            let origin = scope.origin_at_line(span.map_or(1, |span| line_of(text, span.start)));
            if full == "agents" {
                self.read_agents(item, text, scope)?;
                continue;
            }
            let section =
                SETTING_KEYS.iter().any(|key| key.name.strip_prefix(&full).is_some_and(|rest| rest.starts_with('.')));
            match (keys::find_key(&full), item) {
                (Some(key), Item::Value(value)) => {
                    if matches!(scope, SettingsScope::Repository { .. }) && !key.in_repository {
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
                    self.set_if_stronger(key, read, origin);
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
                    let near = keys::nearest_name(&full, SETTING_KEYS.iter().map(|key| key.name));
                    return Err(SettingsError {
                        origin,
                        what: format!("`{full}` is not a setting"),
                        hint: suggestion_hint(near),
                    });
                }
            }
        }
        Ok(())
    }
}

pub(super) fn file_version(path: &Path) -> FileVersion {
    let of = |file: std::fs::Metadata| (file.ino(), file.size(), file.mtime(), file.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}

fn bad_value(key: &super::SettingKey, origin: SettingOrigin, shown: &str) -> SettingsError {
    SettingsError {
        origin,
        what: format!("`{}` must be {}{shown}", key.name, key.shape.expected_value_text()),
        hint: match key.default {
            Some(default) if !default.is_empty() => format!("Fix it, or remove it to use the default ({default})."),
            _ => "Fix it, or remove it.".to_owned(),
        },
    }
}

pub(super) fn suggestion_hint(near: Option<&str>) -> String {
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

    struct SettingsTest {
        dir: tempfile::TempDir,
        variables: Vec<(String, String)>,
    }

    impl SettingsTest {
        fn new(config: &str, variables: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("config.toml"), config).unwrap();
            let mut variables: Vec<_> = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            variables.push(("GROVE_HOME".to_owned(), dir.path().display().to_string()));
            variables.push(("HOME".to_owned(), "/home/me".to_owned()));
            Self { dir, variables }
        }

        fn load_settings(&self) -> Result<Settings, SettingsError> {
            Settings::load_settings(&ProcessEnvironment { variables: self.variables.clone(), cwd: "/".into() })
        }

        fn error_text(&self) -> String {
            let error = self.load_settings().unwrap_err();
            let file = self.dir.path().display().to_string();
            format!("{error} | {}", error.hint).replace(&file, "HOME")
        }
    }

    #[test]
    fn the_later_layer_wins() {
        let file = "[worktree]\nbranch_prefix = \"file/\"\nbase = \"~/trees\"\nfetch = \"never\"\n";
        let case = SettingsTest::new(
            file,
            &[("GROVE_WORKTREE_FETCH", "always"), ("WORKTREE_BASE", "/w"), ("GROVE_WORKTREE_BASE", "/own")],
        );
        let mut settings = case.load_settings().unwrap();
        assert_eq!(settings.branch_prefix(), "file/");
        assert_eq!(settings.fetch_policy(), FetchPolicy::Always);
        assert_eq!(settings.worktree_base(), Path::new("/own"));
        let repository = "worktree.branch_prefix = \"repo/\"\nworktree.fetch = \"never\"\nworktree.copy = [\".env\"]\n";
        settings = settings.with_repository_file(repository, "main").unwrap();
        assert_eq!(settings.branch_prefix(), "repo/", "over the file");
        assert_eq!(settings.fetch_policy(), FetchPolicy::Always, "under the variable");
        assert_eq!(settings.copy_patterns(), [".env"]);
        settings.with_flag("--fetch", "worktree.fetch", "never").unwrap();
        assert_eq!(settings.fetch_policy(), FetchPolicy::Never);
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let settings = SettingsTest::new("", &[]).load_settings().unwrap();
        assert!(settings.store_url().starts_with("sqlite:///") && settings.store_url().ends_with("/grove.db"));
        assert_eq!(settings.worktree_base(), settings.home_path().join("worktrees"));
        assert_eq!(settings.min_free_disk(), 1 << 30);
        assert!(
            settings.submodule_policy() == crate::settings::SubmodulePolicy::CheckOut
                && settings.copy_patterns().is_empty()
                && settings.remote_name().is_none()
        );
        assert!(
            SETTING_KEYS.iter().all(|key| key.default.is_none_or(|text| key.shape.parse_value(text).is_some())),
            "defaults are valid"
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_file_line_and_a_suggestion() {
        let error = |config: &str| SettingsTest::new(config, &[]).error_text();
        assert_eq!(
            error("[worktree]\nlayout = \"owner\"\nbase_brach = \"x\"\n"),
            "HOME/config.toml:3: `worktree.base_brach` is not a setting | Did you mean `worktree.base_branch`?"
        );
        assert_eq!(
            error("# hi\n[limits]\nmax_worktrees_per_codebase = \"many\"\n"),
            "HOME/config.toml:3: `limits.max_worktrees_per_codebase` must be a whole number, 1 or more, not `\"many\"` | Fix it, or remove it to use the default (25)."
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
            "HOME/config.toml:1: `worktree.fetch` must be one of auto, always, never | Fix it, or remove it to use the default (auto)."
        );
    }

    #[test]
    fn variables_are_checked_too() {
        let error = |name: &str, value: &str| SettingsTest::new("", &[(name, value)]).error_text();
        assert_eq!(
            error("STALE_THRESHOLD_DAYS", "abc"),
            "$STALE_THRESHOLD_DAYS: `cleanup.stale_days` must be a whole number, 1 or more, not `abc` | Fix it, or remove it to use the default (14)."
        );
        assert_eq!(
            error("GROVE_WORKTREE_FECH", "never"),
            "$GROVE_WORKTREE_FECH: no setting has this variable | Did you mean `GROVE_WORKTREE_FETCH`?"
        );
        assert!(!error("DATABASE_URL", "mysql://me:secret@h/x").contains("secret"));
        // A variable for an init script or an agent is not a setting.
        assert!(
            SettingsTest::new("", &[("GROVE_WORKTREE", "/x"), ("GROVE_BRANCH", "x"), ("GROVE_REPO", "/r")])
                .load_settings()
                .is_ok()
        );
    }

    #[test]
    fn a_repository_sets_only_what_it_may() {
        let settings = SettingsTest::new("", &[]).load_settings().unwrap();
        let error = settings.with_repository_file("[store]\nurl = \"sqlite:///tmp/x\"\n", "main").unwrap_err();
        assert_eq!(error.to_string(), ".grove/config.toml:2 on main: `store.url` cannot be set by a repository");
    }
}
