//! What is well and what is not, each with how to put it right.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use grove_git::Git;
use grove_model::{Codebase, Status, human_size};
use grove_store::private::{Exposure, ExposureKind};
use grove_store::{Engine, Store};
use rustix::io::Errno;
use serde::Serialize;

use crate::codebases::moved::is_there;
use crate::environments::Isolation;
use crate::inspect::current::init_failed;
use crate::maintenance::kernel::{NamespaceAttempt, landlock_version, try_user_namespace};
use crate::provider::disk::{Facts, facts_of};
use crate::settings::Settings;
use crate::words;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Good,
    /// Put right just now.
    Fixed,
    /// Works, but could be better.
    Warning,
    Bad,
}

#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: String,
    pub verdict: Verdict,
    pub detail: String,
    /// How to put it right; empty when there is nothing to do.
    pub hint: String,
}

pub fn check(name: &str, verdict: Verdict, detail: impl Into<String>, hint: impl Into<String>) -> Check {
    Check { name: name.to_owned(), verdict, detail: detail.into(), hint: hint.into() }
}

fn worktrees(count: usize) -> String {
    if count == 1 { "1 worktree".to_owned() } else { format!("{count} worktrees") }
}

/// The oldest git that is known to work.
const OLDEST: (u32, u32) = (2, 39);

/// What can be said of the machine without a store.
pub async fn examine_machine(git: &Git, settings: &Settings) -> Vec<Check> {
    let mut checks = vec![git_version(git).await, free_disk(settings)];
    checks.extend(kernel().await);
    checks
}

/// Who can read GROVE_HOME and the store; `exposed` is what others could get at before this command began.
pub fn examine_privacy(home: &Path, exposed: &[Exposure]) -> Vec<Check> {
    if exposed.is_empty() {
        return vec![check("privacy", Verdict::Good, format!("only you can read {}", home.display()), "")];
    }
    exposed.iter().map(privacy).collect()
}

fn privacy(Exposure { path, kind }: &Exposure) -> Check {
    let shown = path.display();
    let mode = if path.is_dir() { "700" } else { "600" };
    let (detail, hint) = match kind {
        ExposureKind::Mode(was) => {
            let detail = format!("{shown} had the mode {was:o}, so that others could read it");
            let is_closed = fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 == 0);
            let hint = match is_closed {
                true => {
                    format!("It is {mode} now. Change tokens and keys that are kept there if others use this machine.")
                }
                false => format!("Run `chmod {mode} {shown}`, or move it to a folder of your own."),
            };
            (detail, hint)
        }
        ExposureKind::Owner(user) => (
            format!("{shown} belongs to the user {user}"),
            format!("Run `chown $(id -u) {shown}` as root, or run grove as that user."),
        ),
        ExposureKind::Unknown(why) => (
            format!("{shown} cannot be looked at: {why}"),
            "Check that you may read the folder that it is in.".to_owned(),
        ),
    };
    check("privacy", Verdict::Warning, detail, hint)
}

/// A store that could not be opened.
pub fn bad_store(problem: &crate::problem::Problem) -> Check {
    check("store", Verdict::Bad, problem.message.clone(), problem.hint.clone())
}

/// Looks at the store and at every codebase, reconciling each on the way.
pub async fn examine(git: &Git, store: &Store, isolation: &Isolation) -> Vec<Check> {
    let mut checks = vec![store_kind(store)];
    let codebases = match store.codebases().await {
        Ok(codebases) => codebases,
        Err(error) => return vec![bad_store(&error.into())],
    };
    for codebase in codebases {
        examine_codebase(git, isolation, &codebase, &mut checks).await;
    }
    checks
}

async fn git_version(git: &Git) -> Check {
    match git.version().await {
        Ok(version @ (major, minor)) if version >= OLDEST => {
            let newer = if version >= (2, 41) { "" } else { "; 2.41 counts commits faster" };
            check("git", Verdict::Good, format!("{major}.{minor}{newer}"), "")
        }
        Ok((major, minor)) => {
            check("git", Verdict::Bad, format!("{major}.{minor} is too old"), "Install git 2.39 or newer.")
        }
        Err(error) => check("git", Verdict::Bad, error.to_string(), "Install git 2.39 or newer."),
    }
}

fn store_kind(store: &Store) -> Check {
    let kind = match store.engine() {
        Engine::Sqlite => "SQLite",
        Engine::Postgres => "PostgreSQL",
    };
    check("store", Verdict::Good, format!("{kind}, schema {}", grove_store::latest_version()), "")
}

fn free_disk(settings: &Settings) -> Check {
    let base = settings.worktree_base();
    let there = base.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/")).to_owned();
    match rustix::fs::statvfs(&there) {
        Err(error) => {
            check("disk", Verdict::Bad, format!("{}: {error}", there.display()), "Check that the disk is mounted.")
        }
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} free at {}", human_size(free), there.display());
            if free < settings.min_free_disk() {
                check("disk", Verdict::Bad, detail, "Free some space, or set `worktree.base` to a larger disk.")
            } else {
                check("disk", Verdict::Good, detail, "")
            }
        }
    }
}

/// What walls around agents will need.
async fn kernel() -> Vec<Check> {
    vec![landlock(landlock_version()), user_namespaces(try_user_namespace().await)]
}

fn landlock(version: io::Result<i64>) -> Check {
    let missing = |detail: &str, hint: &str| check("kernel: landlock", Verdict::Warning, detail, hint);
    match version {
        Ok(version) => check("kernel: landlock", Verdict::Good, format!("Landlock ABI version {version}"), ""),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOSYS) => missing(
                "this kernel does not offer Landlock",
                "Use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, or allow the call in the container, to wall agents in.",
            ),
            Some(Errno::OPNOTSUPP) => missing(
                "Landlock was switched off when the machine started",
                "Add landlock to the kernel's `lsm=` list to wall agents in.",
            ),
            _ => missing(
                &format!("the kernel did not say whether it offers Landlock: {error}"),
                "Allow the system call landlock_create_ruleset to wall agents in.",
            ),
        },
    }
}

fn user_namespaces(attempt: NamespaceAttempt) -> Check {
    const NAME: &str = "kernel: user namespaces";
    match attempt {
        NamespaceAttempt::Made => check(NAME, Verdict::Good, "this user can make user namespaces", ""),
        NamespaceAttempt::Refused(why) => check(
            NAME,
            Verdict::Warning,
            format!("this user cannot make user namespaces ({why})"),
            "Look at the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and \
             kernel.apparmor_restrict_unprivileged_userns, and at the rules of the container.",
        ),
        NamespaceAttempt::NotTried(why) => {
            let detail = format!("it is not known whether this user can make user namespaces: {why}");
            check(NAME, Verdict::Warning, detail, "Install `unshare` (util-linux).")
        }
    }
}

async fn examine_codebase(git: &Git, isolation: &Isolation, codebase: &Codebase, checks: &mut Vec<Check>) {
    let name = format!("codebase {}", codebase.name);
    if !is_there(codebase) {
        let detail = format!("{} is not there", codebase.default_cwd.display());
        let hint = format!(
            "Mount its disk or put it back. If it was moved, `grove codebase move {0} PATH` says where it is now; \
             `grove codebase remove {0}` forgets it.",
            codebase.name
        );
        checks.push(check(&name, Verdict::Bad, detail, hint));
        return;
    }
    match isolation.reconcile(codebase).await {
        Ok(done) => {
            checks.extend(done.fixes.into_iter().map(|fix| check(&name, Verdict::Fixed, fix.0, "")));
            let bad = |(branch, problem): (String, crate::problem::Problem)| {
                check(&format!("worktree {branch}"), Verdict::Bad, problem.message, problem.hint)
            };
            checks.extend(done.left.into_iter().map(bad));
        }
        Err(error) => {
            let problem = crate::problem::Problem::from(error);
            checks.push(check(&name, Verdict::Bad, problem.message, problem.hint));
            return;
        }
    }
    let environments = match isolation.current_environments(codebase, false).await {
        Ok(environments) => environments,
        Err(error) => {
            checks.push(check(&name, Verdict::Bad, error.to_string(), "Check that the database runs."));
            return;
        }
    };
    let facts = facts_of(git, codebase, &environments).await;
    let mut well = 0;
    for (environment, facts) in environments.iter().zip(facts) {
        let title = format!("worktree {}", environment.branch);
        let path = environment.path.display();
        match (environment.status, facts) {
            (Status::Failed, _) => {
                let why = environment.error.clone().unwrap_or_else(|| "failed".to_owned());
                let hint = match (init_failed(environment), &environment.base_ref) {
                    (true, _) => "Correct the cause and run its init script again.".to_owned(),
                    (false, base) => format!(
                        "`grove worktree exec {} -- git merge {}`, resolve and commit it there, then finish again.",
                        environment.branch,
                        base.as_deref().unwrap_or("BASE")
                    ),
                };
                checks.push(check(&title, Verdict::Bad, why, hint));
            }
            (Status::Active, Ok(Facts::Missing)) => {
                let hint = "The next `grove worktree create` for its work makes a new one.";
                checks.push(check(&title, Verdict::Warning, format!("{path} is gone"), hint));
            }
            (Status::Active, Ok(Facts::NotMounted)) => {
                checks.push(check(&title, Verdict::Bad, format!("{path} is away"), "Mount its disk."));
            }
            (Status::Active, Err(why)) => {
                let hint = words::index_repair(&why, Some(environment.branch.as_str())).unwrap_or_else(|| {
                    format!("Try `git worktree repair {path}`; what was put aside is in .git/grove/quarantine.")
                });
                checks.push(check(&title, Verdict::Bad, why, hint));
            }
            _ => well += 1,
        }
    }
    match isolation.orphans(codebase).await {
        Ok(orphans) if !orphans.is_empty() => {
            let detail = format!("{} that no record knows", worktrees(orphans.len()));
            checks.push(check(
                &name,
                Verdict::Warning,
                detail,
                "`grove worktree orphans` lists them; they are left alone.",
            ));
        }
        Ok(_) => {}
        Err(error) => {
            let problem = crate::problem::Problem::from(error);
            checks.push(check(&name, Verdict::Bad, problem.message, problem.hint));
        }
    }
    checks.push(check(&name, Verdict::Good, format!("{} well", worktrees(well)), ""));
}
