//! Fifty creations at once, from two processes, against fifty one after another, in the same run.
//!
//! Rounds are interleaved and nothing is deleted between them. Run it with `scripts/bench many`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grove_environments::codebases::Codebases;
use grove_environments::create::{CreateHints, CreateRequest, EnvironmentCreator};
use grove_environments::environments::Environments;
use grove_environments::settings::{ProcessEnvironment, Settings};
use grove_git::Git;
use grove_model::{BranchName, Work};
use grove_store::{Store, StoreOptions};
use grove_testkit::TestRepo;

const CHILD_ENV_VAR: &str = "GROVE_BENCH_CHILD";

fn main() {
    if let Ok(facts) = std::env::var(CHILD_ENV_VAR) {
        let [repo, prefix, count, at_once] = facts.lines().collect::<Vec<_>>()[..] else { panic!("{facts}") };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(create_environments(repo.as_ref(), prefix, count.parse().unwrap(), at_once == "true"));
    }
    // `cargo test --benches` runs this too, without `--bench`; there is nothing to test here.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let test = TestRepo::new();
    for n in 0..700 {
        test.write_file(&format!("src/part{}/file{n}.txt", n % 40), &format!("line {n}\n").repeat(400));
    }
    test.commit_all("files");
    run_children(&test, "warm-up", &[(1, false)]);
    let mut ratios = Vec::new();
    for round in 0..5 {
        let alone = || run_children(&test, &format!("alone-{round}"), &[(50, false)]);
        let at_once = || run_children(&test, &format!("at-once-{round}"), &[(25, true), (25, true)]);
        let (alone, at_once) = if round % 2 == 0 {
            (alone(), at_once())
        } else {
            let once = at_once();
            (alone(), once)
        };
        let ratio = alone.as_secs_f64() / at_once.as_secs_f64();
        println!("round {round}: one at a time {alone:.2?}, at once {at_once:.2?}: {ratio:.2}x the rate");
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "50 at once from two processes: {:.2}x the rate of one at a time (median of 5 rounds, 700 files)",
        ratios[2]
    );
}

/// Runs one child for each part and waits for all.
fn run_children(test: &TestRepo, name: &str, parts: &[(usize, bool)]) -> Duration {
    let began = Instant::now();
    let start = |(index, (count, at_once)): (usize, &(usize, bool))| {
        let facts = format!("{}\n{name}-{index}\n{count}\n{at_once}", test.path().display());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env_clear().envs(grove_testkit::bare_env(&test.home_dir())).env(CHILD_ENV_VAR, facts);
        command.env("GROVE_HOME", test.temp_dir().join("grove")).env("MAX_WORKTREES_PER_CODEBASE", "10000");
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = parts.iter().enumerate().map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    began.elapsed()
}

async fn create_environments(repo: &Path, prefix: &str, count: usize, at_once: bool) {
    let environment = ProcessEnvironment { cwd: PathBuf::from(repo), ..ProcessEnvironment::of_this_process().unwrap() };
    let settings = Settings::load_settings(&environment).unwrap();
    let git = Git::default();
    let store = Store::open(&settings.store_url(), StoreOptions::default()).await.unwrap();
    let codebases = Codebases { git: git.clone(), store: store.clone(), settings: (&settings).into() };
    let codebase = codebases.add_codebase(".", None, repo).await.unwrap();
    let isolation = Environments::new(git, store, settings);
    let mut making = Vec::new();
    for n in 0..count {
        let name = format!("{prefix}-{n}");
        let branch = Some(BranchName::parse(&name).unwrap());
        let request = CreateRequest {
            work: Work::for_task(&name).unwrap(),
            branch,
            from: None,
            hints: CreateHints::default(),
            conversation: None,
            by: EnvironmentCreator::default(),
        };
        let (isolation, codebase) = (isolation.clone(), codebase.clone());
        let one = tokio::spawn(async move { isolation.create_environment(&codebase, &request).await.map(drop) });
        if at_once { making.push(one) } else { one.await.unwrap().unwrap() }
    }
    for one in making {
        one.await.unwrap().unwrap();
    }
}
