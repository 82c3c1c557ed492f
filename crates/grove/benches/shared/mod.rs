//! What the benches have in common.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grove_testkit::TestRepo;

/// `cargo test --benches` runs benches too, without `--bench`; there is nothing to test there.
pub fn asked_for() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// A repository with so many files of a few kilobytes each.
pub fn repository(files: usize) -> TestRepo {
    let repo = TestRepo::new();
    for n in 0..files {
        let folder = repo.path().join(format!("src/part{}/deep{}", n % 40, n % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file{n}.txt")), text(n)).unwrap();
    }
    repo.commit("files");
    repo
}

/// 500 bytes to 8 kilobytes that compress like source code, the same in every run.
fn text(seed: usize) -> String {
    let words = ["fn", "let", "match", "return", "value", "error", "path", "branch", "=>", "{", "}", "\n"];
    let mut state = seed as u64 * 2 + 1;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let length = 100 + next(1500);
    (0..length).map(|_| format!("{} {} ", words[next(words.len() as u64) as usize], next(1000))).collect()
}

pub fn time(command: &mut Command) -> Duration {
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
