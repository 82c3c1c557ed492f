//! Recognises worktrees of other tools by the metadata that the tools left.

use std::fs;
use std::path::{Path, PathBuf};

use grove_model::Codebase;
use serde::Deserialize;

use crate::mirror::MirrorFiles;
use crate::provider::FoundEnvironment;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SkillRegistry {
    worktrees: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkillRegistryEntry {
    repo_path: PathBuf,
    worktree_path: PathBuf,
}

/// Tells whether the worktree-manager skill lists it for this repository. A broken file, or a broken entry in
/// it, is ignored.
pub(super) fn is_skills(user_home: Option<&Path>, codebase: &Codebase, found: &FoundEnvironment) -> bool {
    let Some(file) = user_home.map(|home| home.join(".claude/worktree-registry.json")) else { return false };
    let registry: SkillRegistry =
        fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let entries =
        registry.worktrees.into_iter().filter_map(|entry| serde_json::from_value::<SkillRegistryEntry>(entry).ok());
    let same = |a: &Path, b: &Path| a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    let mut ours = entries.filter(|entry| same(&entry.repo_path, &codebase.default_cwd));
    ours.any(|entry| same(&entry.worktree_path, &found.path))
}

/// Tells whether it is in Automaker's folder and Automaker's metadata names its branch.
pub(super) fn is_automakers(codebase: &Codebase, found: &FoundEnvironment) -> bool {
    let root = &codebase.default_cwd;
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let places = [root.with_file_name(format!("{name}-worktrees")), root.join(".worktrees")];
    if !places.iter().any(|place| found.path.starts_with(place)) {
        return false;
    }
    let automakers = root.join(".automaker");
    let named = |(file, mirrored): &(PathBuf, crate::mirror::MirrorRecord)| {
        file.starts_with(&automakers) && found.branch.as_deref() == Some(mirrored.branch.as_str())
    };
    MirrorFiles::read_all(root).read.iter().any(named)
}
