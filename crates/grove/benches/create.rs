//! Creation against plain git, in the same run, interleaved.
//!
//! Each round makes one worktree with `git worktree add` and one with `grove worktree create`, the
//! order changing from round to round, and divides the two times; the figure is the median of the
//! rounds' ratios. Nothing is deleted between rounds: a bulk delete slows the next creations of
//! everybody on ext4. Run it with `scripts/bench create`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grove_testkit::{Sandbox, TestRepo};

fn main() {
    // `cargo test --benches` runs this too, without `--bench`; there is nothing to test here.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    println!("creation against `git worktree add`: median of per-round ratios, and each one's own median");
    for (files, rounds) in [(700, 25), (10_000, 9)] {
        let grove = Sandbox::new(env!("CARGO_BIN_EXE_grove"), repository(files));
        // Registration and the store's first start are not creation.
        grove.grove(["worktree", "create", "warm-up", "--json"]).ok();
        let (mut ratios, mut ours, mut gits) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let by_us = || time(&mut grove.command(["worktree", "create", &format!("ours-{round}"), "--json"]));
            let by_git = || {
                let (name, path) = (format!("gits-{round}"), grove.repo.dir().join(format!("git/{round}")));
                time(
                    &mut grove
                        .repo
                        .command(grove.repo.path(), &["worktree", "add", "-q", "-b", &name, path.to_str().unwrap()]),
                )
            };
            let (us, git) = if round % 2 == 0 {
                (by_us(), by_git())
            } else {
                let git = by_git();
                (by_us(), git)
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
}

/// A repository with so many files of a few kilobytes each.
fn repository(files: usize) -> TestRepo {
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

fn time(command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    let took = began.elapsed();
    assert!(status.success(), "{command:?}");
    took
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
