//! Checks the installation and says how to fix each problem.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use grove_git::Git;
use grove_model::{Codebase, Status, UserText, human_size};
use grove_store::private::{Exposure, ExposureKind};
use grove_store::{Engine, Store};
use rustix::io::Errno;
use serde::Serialize;

use crate::codebases::moved::is_there;
use crate::environments::Environments;
use crate::inspect::current::init_failed;
use crate::maintenance::kernel::{NamespaceAttempt, landlock_version, try_user_namespace};
use crate::provider::disk::DiskFacts;
use crate::settings::Settings;
use crate::words;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    Good,
    /// Was just fixed.
    Fixed,
    /// Works, but could be better.
    Warning,
    Bad,
}

#[derive(Clone, Debug, Serialize)]
pub struct DoctorCheck {
    pub name: String,
    pub verdict: CheckResult,
    pub detail: UserText,
    /// How to fix it; empty if there is nothing to do.
    pub hint: UserText,
}

pub fn new_check(
    name: &str,
    verdict: CheckResult,
    detail: impl Into<UserText>,
    hint: impl Into<UserText>,
) -> DoctorCheck {
    DoctorCheck { name: name.to_owned(), verdict, detail: detail.into(), hint: hint.into() }
}

fn worktree_count_text(count: usize) -> String {
    if count == 1 { "1 worktree".to_owned() } else { format!("{count} worktrees") }
}

/// The oldest git version that is known to work.
const OLDEST_GIT_VERSION: (u32, u32) = (2, 39);

/// Checks the machine without a store.
pub async fn examine_machine(git: &Git, settings: &Settings) -> Vec<DoctorCheck> {
    let mut checks = vec![git_version(git).await, free_disk(settings)];
    checks.extend(check_kernel().await);
    checks
}

/// Checks who can read GROVE_HOME and the store; `exposed` lists the files that other users could read before
/// this command began.
pub fn examine_privacy(home: &Path, exposed: &[Exposure]) -> Vec<DoctorCheck> {
    if exposed.is_empty() {
        return vec![new_check("privacy", CheckResult::Good, format!("only you can read {}", home.display()), "")];
    }
    exposed.iter().map(check_exposure).collect()
}

fn check_exposure(Exposure { path, kind }: &Exposure) -> DoctorCheck {
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
    new_check("privacy", CheckResult::Warning, detail, hint)
}

/// Returns the check for a store that could not be opened.
pub fn bad_store(problem: &crate::problem::Problem) -> DoctorCheck {
    new_check("store", CheckResult::Bad, problem.message.clone(), problem.hint.clone())
}

/// Checks the store and every codebase, and reconciles each codebase.
pub async fn examine_installation(store: &Store, environments: &Environments) -> Vec<DoctorCheck> {
    let mut checks = vec![store_kind(store)];
    let codebases = match store.list_codebases().await {
        Ok(codebases) => codebases,
        Err(error) => return vec![bad_store(&error.into())],
    };
    for codebase in codebases {
        examine_codebase(environments, &codebase, &mut checks).await;
    }
    checks
}

async fn git_version(git: &Git) -> DoctorCheck {
    match git.git_version().await {
        Ok(version @ (major, minor)) if version >= OLDEST_GIT_VERSION => {
            let newer = if version >= (2, 41) { "" } else { "; 2.41 counts commits faster" };
            new_check("git", CheckResult::Good, format!("{major}.{minor}{newer}"), "")
        }
        Ok((major, minor)) => {
            new_check("git", CheckResult::Bad, format!("{major}.{minor} is too old"), "Install git 2.39 or newer.")
        }
        Err(error) => new_check("git", CheckResult::Bad, error.to_string(), "Install git 2.39 or newer."),
    }
}

fn store_kind(store: &Store) -> DoctorCheck {
    let kind = match store.database_engine() {
        Engine::Sqlite => "SQLite",
        Engine::Postgres => "PostgreSQL",
    };
    new_check("store", CheckResult::Good, format!("{kind}, schema {}", grove_store::latest_version()), "")
}

fn free_disk(settings: &Settings) -> DoctorCheck {
    let base = settings.worktree_base();
    let there = base.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/")).to_owned();
    match rustix::fs::statvfs(&there) {
        Err(error) => new_check(
            "disk",
            CheckResult::Bad,
            format!("{}: {error}", there.display()),
            "Check that the disk is mounted.",
        ),
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} free at {}", human_size(free), there.display());
            if free < settings.min_free_disk() {
                new_check("disk", CheckResult::Bad, detail, "Free some space, or set `worktree.base` to a larger disk.")
            } else {
                new_check("disk", CheckResult::Good, detail, "")
            }
        }
    }
}

/// Checks the kernel features that sandboxes for agents need.
async fn check_kernel() -> Vec<DoctorCheck> {
    vec![check_landlock(landlock_version()), user_namespaces(try_user_namespace().await)]
}

fn check_landlock(version: io::Result<i64>) -> DoctorCheck {
    let missing = |detail: &str, hint: &str| new_check("kernel: landlock", CheckResult::Warning, detail, hint);
    match version {
        Ok(version) => new_check("kernel: landlock", CheckResult::Good, format!("Landlock ABI version {version}"), ""),
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

fn user_namespaces(attempt: NamespaceAttempt) -> DoctorCheck {
    const CHECK_NAME: &str = "kernel: user namespaces";
    match attempt {
        NamespaceAttempt::Made => new_check(CHECK_NAME, CheckResult::Good, "this user can make user namespaces", ""),
        NamespaceAttempt::Refused(why) => new_check(
            CHECK_NAME,
            CheckResult::Warning,
            format!("this user cannot make user namespaces ({why})"),
            "Look at the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and \
             kernel.apparmor_restrict_unprivileged_userns, and at the rules of the container.",
        ),
        NamespaceAttempt::NotTried(why) => {
            let detail = format!("it is not known whether this user can make user namespaces: {why}");
            new_check(CHECK_NAME, CheckResult::Warning, detail, "Install `unshare` (util-linux).")
        }
    }
}

async fn examine_codebase(environments: &Environments, codebase: &Codebase, checks: &mut Vec<DoctorCheck>) {
    let name = format!("codebase {}", codebase.name);
    if !is_there(codebase) {
        let detail = format!("{} is not there", codebase.default_cwd.display());
        let hint = format!(
            "Mount its disk or put it back. If it was moved, `grove codebase move {0} PATH` says where it is now; \
             `grove codebase remove {0}` forgets it.",
            codebase.name
        );
        checks.push(new_check(&name, CheckResult::Bad, detail, hint));
        return;
    }
    match environments.reconcile_codebase(codebase).await {
        Ok(done) => {
            checks.extend(done.fixes.into_iter().map(|fix| new_check(&name, CheckResult::Fixed, fix.0, "")));
            let bad = |(branch, problem): (String, crate::problem::Problem)| {
                new_check(&format!("worktree {branch}"), CheckResult::Bad, problem.message, problem.hint)
            };
            checks.extend(done.left.into_iter().map(bad));
        }
        Err(error) => {
            let problem = crate::problem::Problem::from(error);
            checks.push(new_check(&name, CheckResult::Bad, problem.message, problem.hint));
            return;
        }
    }
    let recorded = match environments.current_environments(codebase, false).await {
        Ok(recorded) => recorded,
        Err(error) => {
            checks.push(new_check(&name, CheckResult::Bad, error.to_string(), "Check that the database runs."));
            return;
        }
    };
    let facts = environments.provider.inspect(codebase, &recorded).await;
    let mut well = 0;
    for (environment, facts) in recorded.iter().zip(facts) {
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
                checks.push(new_check(&title, CheckResult::Bad, why, hint));
            }
            (Status::Active, Ok(DiskFacts::Missing)) => {
                let hint = "The next `grove worktree create` for its work makes a new one.";
                checks.push(new_check(&title, CheckResult::Warning, format!("{path} is gone"), hint));
            }
            (Status::Active, Ok(DiskFacts::NotMounted)) => {
                checks.push(new_check(&title, CheckResult::Bad, format!("{path} is away"), "Mount its disk."));
            }
            (Status::Active, Err(why)) => {
                let hint = words::index_repair(&why, Some(environment.branch.as_str())).unwrap_or_else(|| {
                    format!("Try `git worktree repair {path}`; what was put aside is in .git/grove/quarantine.")
                });
                checks.push(new_check(&title, CheckResult::Bad, why, hint));
            }
            _ => well += 1,
        }
    }
    match environments.list_orphan_worktrees(codebase).await {
        Ok(orphans) if !orphans.is_empty() => {
            let detail = format!("{} that no record knows", worktree_count_text(orphans.len()));
            checks.push(new_check(
                &name,
                CheckResult::Warning,
                detail,
                "`grove worktree orphans` lists them; they are left alone.",
            ));
        }
        Ok(_) => {}
        Err(error) => {
            let problem = crate::problem::Problem::from(error);
            checks.push(new_check(&name, CheckResult::Bad, problem.message, problem.hint));
        }
    }
    checks.push(new_check(&name, CheckResult::Good, format!("{} well", worktree_count_text(well)), ""));
}
