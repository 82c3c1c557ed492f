//! The common parts of the benches.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grove_testkit::{SeededRandom, TestRepo};

/// Tells whether the bench shall run. `cargo test --benches` runs benches too, without `--bench`; there
/// is nothing to test there.
pub fn asked_for() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// Makes a repository with so many files of a few kilobytes each.
pub fn make_repository(files: usize) -> TestRepo {
    let repo = TestRepo::new();
    for n in 0..files {
        let folder = repo.path().join(format!("src/part{}/deep{}", n % 40, n % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file{n}.txt")), generate_text(n)).unwrap();
    }
    repo.commit_all("files");
    repo
}

/// Returns 500 bytes to 8 kilobytes that compress like source code, the same in every run.
fn generate_text(seed: usize) -> String {
    let words = ["fn", "let", "match", "return", "value", "error", "path", "branch", "=>", "{", "}", "\n"];
    let mut dice = SeededRandom(seed as u64 * 2 + 1);
    let length = 100 + dice.next_below(1500);
    (0..length)
        .map(|_| format!("{} {} ", words[dice.next_below(words.len() as u64) as usize], dice.next_below(1000)))
        .collect()
}

pub fn time_command(command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    let took = began.elapsed();
    assert!(status.success(), "{command:?}");
    took
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures both sides of each round, the order changing from round to round, and prints the median of
/// the rounds' ratios with each side's own median.
pub fn compare_rounds(
    files: usize,
    rounds: usize,
    by_us: impl Fn(usize) -> Duration,
    by_git: impl Fn(usize) -> Duration,
) {
    let (mut ratios, mut ours, mut gits) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (us, git) = if round % 2 == 0 {
            (by_us(round), by_git(round))
        } else {
            let git = by_git(round);
            (by_us(round), git)
        };
        ratios.push(us.as_secs_f64() / git.as_secs_f64());
        ours.push(us.as_secs_f64());
        gits.push(git.as_secs_f64());
    }
    println!(
        "{files:>6} files: {:.2}x   grove {:6.1} ms   git {:6.1} ms   ({rounds} rounds)",
        median(&mut ratios),
        median(&mut ours) * 1e3,
        median(&mut gits) * 1e3,
    );
}
