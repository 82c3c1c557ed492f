//! Submodules of a new worktree.
//!
//! `git submodule update --init` would note each submodule in the repository's own config, which
//! all worktrees share and a creation must not touch. The same facts are given to git for this one
//! call instead. Submodules of submodules live in repositories of this worktree alone.

use std::path::{Path, PathBuf};

use crate::command::Invocation;
use crate::{GitError, Place, Repository};

/// Checks out the submodules of a worktree that has any. Relative addresses are relative to
/// `remote`'s; without one, to the repository itself.
pub async fn initialise(repo: &Repository, work_tree: &Path, remote: Option<&str>) -> Result<bool, GitError> {
    if !work_tree.join(".gitmodules").is_file() {
        return Ok(false);
    }
    let git = repo.git();
    let listed = git.command(Place::Dir(work_tree), "config");
    let listed = listed.args(["--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.(url|path)$"]);
    // Exit code 1: it names none.
    let listed = listed.run_for(&[0, 1]).await?.stdout;
    let text = String::from_utf8_lossy(&listed).into_owned();
    // With its credentials, where it has some: git will need them, and nobody else sees it.
    let base = match remote {
        Some(remote) => repo.command("remote").args(["get-url", "--", remote]).text().await?,
        None => repo.root.display().to_string(),
    };
    let (mut facts, mut paths) = (Vec::new(), Vec::new());
    for (key, value) in text.split('\0').filter_map(|entry| entry.split_once('\n')) {
        match key.rsplit_once('.') {
            Some((name, "url")) => {
                facts.push((format!("{name}.url"), resolve(&base, value)));
                facts.push((format!("{name}.active"), "true".to_owned()));
            }
            Some((_, "path")) => paths.push(PathBuf::from(value)),
            _ => {}
        }
    }
    let update = git.command(Place::Dir(work_tree), "submodule").args(["--quiet", "update"]);
    with_config(update, &facts).network().run().await?;
    for path in paths.iter().map(|path| work_tree.join(path)).filter(|path| path.join(".gitmodules").is_file()) {
        let nested = git.command(Place::Dir(&path), "submodule").args(["--quiet", "update", "--init", "--recursive"]);
        nested.network().run().await?;
    }
    Ok(true)
}

/// Settings for one call, whatever their names hold.
fn with_config<'a>(call: Invocation<'a>, facts: &[(String, String)]) -> Invocation<'a> {
    let call = call.env("GIT_CONFIG_COUNT", facts.len().to_string());
    facts.iter().enumerate().fold(call, |call, (n, (key, value))| {
        call.env(&format!("GIT_CONFIG_KEY_{n}"), key).env(&format!("GIT_CONFIG_VALUE_{n}"), value)
    })
}

/// An address relative to another, as git reads it in `.gitmodules`.
fn resolve(base: &str, url: &str) -> String {
    if !url.starts_with("./") && !url.starts_with("../") {
        return url.to_owned();
    }
    let (mut base, mut rest) = (base.trim_end_matches('/').to_owned(), url);
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("../") {
            rest = after;
            // `host:a/b` goes up to `host:a`, and that to `host:`.
            let cut = base.rfind(['/', ':']).map_or(0, |at| if base.as_bytes()[at] == b':' { at + 1 } else { at });
            base.truncate(cut);
        } else {
            let gap = if base.ends_with(':') { "" } else { "/" };
            return format!("{base}{gap}{}", rest.trim_end_matches('/'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn relative_addresses_are_read_as_git_reads_them() {
        for (base, url, whole) in [
            ("https://h/acme/app.git", "../lib.git", "https://h/acme/lib.git"),
            ("https://h/acme/app.git/", "../../other/lib", "https://h/other/lib"),
            ("git@h:acme/app.git", "../lib.git", "git@h:acme/lib.git"),
            ("git@h:app.git", "../lib.git", "git@h:lib.git"),
            ("/srv/app", "./lib", "/srv/app/lib"),
            ("/srv/app", "https://h/x", "https://h/x"),
        ] {
            assert_eq!(resolve(base, url), whole);
        }
    }
}
