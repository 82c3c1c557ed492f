//! The merge verdicts of a hundred environments, against one `git branch --merged` for each; and the
//! list of them with all columns, against `git status` on each, two at a time.
//!
//! Rounds are interleaved; verdicts are deleted before each. Run it with `scripts/bench verdicts`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grove_environments::codebases::Codebases;
use grove_environments::create::{CreateHints, CreateRequest, EnvironmentCreator};
use grove_environments::environments::Environments;
use grove_environments::settings::{ProcessEnvironment, Settings};
use grove_git::Git;
use grove_model::{BranchName, Moment, Work};
use grove_store::{Store, StoreOptions};
use grove_testkit::TestRepo;

const ENVIRONMENT_COUNT: usize = 100;
const ROUND_COUNT: usize = 9;

const CHILD_ENV_VAR: &str = "GROVE_BENCH_CHILD";

fn main() {
    // `cargo test --benches` runs this too, without `--bench`; there is nothing to test here.
    if std::env::var_os(CHILD_ENV_VAR).is_some() {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(run_benchmark());
    } else if std::env::args().any(|arg| arg == "--bench") {
        // Runs this bench again with an environment built from nothing, so that git can be called as it is.
        let home = tempfile::tempdir().unwrap();
        let config = "[user]\n\tname = a\n\temail = a@b\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n";
        std::fs::write(home.path().join(".gitconfig"), config).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env_clear().envs(grove_testkit::bare_env(home.path())).env(CHILD_ENV_VAR, "1");
        assert!(child.status().unwrap().success());
    }
}

async fn run_benchmark() {
    let test = TestRepo::new();
    for n in 0..700 {
        test.write_file(&format!("src/part{}/file{n}.txt", n % 40), &format!("line {n}\n").repeat(40));
    }
    test.commit_all("files");
    let home = test.temp_dir().join("grove");
    let variables = [("GROVE_HOME", home.display().to_string()), ("MAX_WORKTREES_PER_CODEBASE", "1000".to_owned())];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
    let settings = Settings::load_settings(&ProcessEnvironment { variables, cwd: test.path().to_owned() }).unwrap();
    let git = Git::default();
    let store = Store::open(&settings.store_url(), StoreOptions::default()).await.unwrap();
    let codebases = Codebases { git: git.clone(), store: store.clone(), settings: (&settings).into() };
    let codebase = codebases.add_codebase(".", None, test.path()).await.unwrap();
    let isolation = Environments::new(git, store.clone(), settings.clone());
    let mut environments = Vec::new();
    for n in 0..ENVIRONMENT_COUNT {
        let name = format!("work-{n}");
        let request = CreateRequest {
            work: Work::for_task(&name).unwrap(),
            branch: Some(BranchName::parse(&name).unwrap()),
            from: None,
            hints: CreateHints::default(),
            conversation: None,
            by: EnvironmentCreator::default(),
        };
        let environment = isolation.create_environment(&codebase, &request).await.unwrap().environment;
        if n % 4 > 0 {
            for part in 0..2 {
                std::fs::write(environment.path.join(format!("{name}-{part}")), &name).unwrap();
                test.git_in(&environment.path, &["add", "."]);
                test.git_in(&environment.path, &["commit", "-q", "-m", &name]);
            }
        }
        match n % 4 {
            1 => drop(test.git(&["merge", "-q", "--no-ff", "-m", "merge", &name])),
            2 => {
                test.git(&["merge", "-q", "--squash", &name]);
                test.git(&["commit", "-q", "-m", "squash"]);
            }
            _ => {}
        }
        environments.push(environment);
    }
    let pool = sqlx::AnyPool::connect(&settings.store_url()).await.unwrap();
    let (mut verdicts, mut lists) = (Vec::new(), Vec::new());
    for round in 0..ROUND_COUNT {
        sqlx::query("DELETE FROM grove_verdicts").execute(&pool).await.unwrap();
        let began = Instant::now();
        let found = isolation.merge_statuses(&codebase, &environments, Moment::now()).await.unwrap();
        let ours = began.elapsed();
        let merged = found.values().filter(|merge_status| merge_status.verdict.merged_by().is_some()).count();
        assert_eq!(merged, ENVIRONMENT_COUNT / 2, "the right ones");
        let began = Instant::now();
        for _ in &environments {
            test.git(&["branch", "--merged", "main"]);
        }
        let gits = began.elapsed();
        verdicts.push((ours, gits));
        let by_us = async || {
            let began = Instant::now();
            assert_eq!(isolation.environment_views(&codebase, false).await.unwrap().len(), ENVIRONMENT_COUNT);
            began.elapsed()
        };
        lists.push(if round % 2 == 0 {
            let ours = by_us().await;
            (ours, time_statuses(&test, &environments))
        } else {
            let gits = time_statuses(&test, &environments);
            (by_us().await, gits)
        });
    }
    pool.close().await;
    print_medians("verdicts, nothing remembered, against one `git branch --merged` each", &mut verdicts);
    print_medians("list with all columns, against `git status` on each, two at a time", &mut lists);
}

fn time_statuses(test: &TestRepo, environments: &[grove_model::Environment]) -> Duration {
    let began = Instant::now();
    let half = environments.len() / 2;
    std::thread::scope(|scope| {
        for part in [&environments[..half], &environments[half..]] {
            scope.spawn(move || {
                for environment in part {
                    let mut status: Command =
                        test.git_command(&environment.path, &["status", "--porcelain=v2", "--branch"]);
                    assert!(status.stdout(Stdio::null()).status().unwrap().success());
                }
            });
        }
    });
    began.elapsed()
}

fn print_medians(what: &str, rounds: &mut [(Duration, Duration)]) {
    rounds.sort_by(|a, b| (a.0.as_secs_f64() / a.1.as_secs_f64()).total_cmp(&(b.0.as_secs_f64() / b.1.as_secs_f64())));
    let (ours, gits) = rounds[rounds.len() / 2];
    println!(
        "{ENVIRONMENT_COUNT} environments, {what}: {:.3}x   grove {:.1} ms   git {:.1} ms   (median of {} rounds)",
        ours.as_secs_f64() / gits.as_secs_f64(),
        ours.as_secs_f64() * 1e3,
        gits.as_secs_f64() * 1e3,
        rounds.len()
    );
}
