//! Imports go one way: Cargo enforces it between crates, this among the modules of each crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which top-level modules of a crate each of them names.
type ModuleImports = BTreeMap<String, BTreeSet<String>>;

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The names behind `crate::`, also in braces: `crate::{a, b::C}` names `a` and `b`.
fn named_modules(source: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in source.match_indices("crate::") {
        let before = source[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &source[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if depth == 0 && begins && !c.is_whitespace() => {
                    found.insert(word(&list[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

fn imports_of(crate_dir: &Path) -> ModuleImports {
    let src = crate_dir.join("src");
    let mut imports = ModuleImports::new();
    for file in rust_files(&src) {
        let below = file.strip_prefix(&src).unwrap();
        let module = below.components().next().unwrap().as_os_str().to_string_lossy();
        let module = module.trim_end_matches(".rs").to_owned();
        if matches!(module.as_str(), "lib" | "main") {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        // Tests may use what they like.
        let source = source.split("\n#[cfg(test)]\n").next().unwrap();
        let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let source = code.join("\n");
        imports.entry(module).or_default().extend(named_modules(&source));
    }
    let known: BTreeSet<String> = imports.keys().cloned().collect();
    let exported = exported_names(&fs::read_to_string(src.join("lib.rs")).unwrap_or_default());
    for (module, named) in &mut imports {
        let modules = named.iter().map(|name| exported.get(name).unwrap_or(name));
        *named = modules.filter(|other| *other != module && known.contains(*other)).cloned().collect();
    }
    imports
}

/// Returns the names that a crate's root re-exports, each with its module, from lines such as
/// `pub use command::{Git, GitLocation};`.
fn exported_names(root: &str) -> BTreeMap<String, String> {
    let statements = root.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()?.split_once("::"));
    let names = statements.flat_map(|(module, names)| {
        names.split(['{', '}', ',', ' ', '\n', ':']).map(move |name| (name.to_owned(), module.to_owned()))
    });
    names.filter(|(name, _)| !name.is_empty()).collect()
}

fn reachable_modules(imports: &ModuleImports, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        open.extend(imports[&module].iter().filter(|other| seen.insert((*other).clone())).cloned());
    }
    seen
}

/// The largest set of modules that all import each other, directly or not.
fn largest_ring(imports: &ModuleImports) -> Vec<String> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|module| (module, reachable_modules(imports, module))).collect();
    let ring = |module: &String| -> Vec<String> {
        reached[module].iter().filter(|other| reached[other].contains(module)).cloned().collect()
    };
    imports.keys().map(ring).max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn modules_do_not_import_each_other_in_rings() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut looked_at = 0;
    let mut rings = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let dir = entry.unwrap().path();
        let imports = imports_of(&dir);
        looked_at += imports.len();
        let ring = largest_ring(&imports);
        println!("{}: {} modules, largest ring {}", dir.file_name().unwrap().display(), imports.len(), ring.len());
        if ring.len() > 2 {
            rings.push((dir, ring));
        }
    }
    assert!(looked_at > 100, "{looked_at} modules");
    assert!(rings.is_empty(), "{rings:#?}");
}

/// Returns the lines of a crate's product code that contain one of the words, outside of the named files.
fn lines_with(crate_name: &str, words: &[&str], except: &[&str]) -> Vec<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(crate_name).join("src");
    let mut found = Vec::new();
    for file in rust_files(&src) {
        let below = file.strip_prefix(&src).unwrap().display().to_string();
        if except.iter().any(|name| below.starts_with(name) || below.contains(&format!("/{name}"))) {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        let source = source.split("\n#[cfg(test)]\n").next().unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        let with = code.filter(|line| words.iter().any(|word| line.contains(word)));
        found.extend(with.map(|line| format!("{crate_name}/{below}: {}", line.trim())));
    }
    found
}

/// The functions of the git crate that create, inspect, move or remove a worktree.
const WORKTREE_FUNCTIONS: [&str; 14] = [
    "quarantine::",
    "leftovers::",
    "add_worktree",
    "withdraw_creation(&repo",
    "create_snapshot(&",
    "end_snapshot(&",
    "list_snapshots(&repo",
    "TrashedWorktree",
    "check::check_removal",
    "sync::merge_commit",
    "GitLocation::Worktree",
    "initialise_submodules",
    "copy_ignored",
    "LockFiles::of_environment",
];

#[test]
fn only_the_provider_handles_worktrees() {
    let mut calls = lines_with("environments", &WORKTREE_FUNCTIONS, &["provider"]);
    for above in ["agents", "conversations", "platforms", "grove"] {
        calls.extend(lines_with(above, &WORKTREE_FUNCTIONS, &[]));
        calls.extend(lines_with(above, &["EnvironmentLock::open", "links::entry_of"], &[]));
    }
    assert!(calls.is_empty(), "{calls:#?}");
    assert!(lines_with("environments", &WORKTREE_FUNCTIONS, &[]).len() > WORKTREE_FUNCTIONS.len());
}

#[test]
fn refusals_are_worded_in_one_module_of_each_crate() {
    let crates = ["environments", "agents", "conversations", "platforms", "grove"];
    let worded: Vec<_> =
        crates.iter().flat_map(|name| lines_with(name, &["Problem::new("], &["words", "problem.rs"])).collect();
    assert!(worded.is_empty(), "{worded:#?}");
}

#[test]
fn platforms_are_named_only_above() {
    let names = ["\"github\"", "\"slack\"", "\"discord\"", "\"telegram\""];
    let crates = ["model", "git", "store", "environments", "agents", "conversations"];
    let named: Vec<_> = crates.iter().flat_map(|name| lines_with(name, &names, &["settings"])).collect();
    assert!(named.is_empty(), "{named:#?}");
}

#[test]
fn names_behind_crate_are_found() {
    let source = "use crate::{a, b::{C, d}, e as f};\nuse crate::g::H;\nlet x = crate::i::j(my_crate::k);";
    let named: Vec<String> = named_modules(source).into_iter().collect();
    assert_eq!(named, ["a", "b", "e", "g", "i"]);
    let exported = exported_names("mod a;\npub use a::{B, C};\npub use d::E;\n");
    assert_eq!(exported.keys().collect::<Vec<_>>(), ["B", "C", "E"]);
    assert_eq!(exported["C"], "a");
    let imports = |edges: &[(&str, &str)]| {
        let mut imports = ModuleImports::new();
        for (from, to) in edges {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            imports.entry((*to).to_owned()).or_default();
        }
        imports
    };
    assert_eq!(largest_ring(&imports(&[("a", "b"), ("b", "c")])), [""; 0]);
    assert_eq!(largest_ring(&imports(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])), ["a", "b", "c"]);
}
