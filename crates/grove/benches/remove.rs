//! Removal against plain git, in the same run, interleaved.
//!
//! Each round makes two clean worktrees, removes one with `git worktree remove` and one with
//! `grove worktree remove`, the order changing from round to round, and divides the two times; the
//! figure is the median of the rounds' ratios. Run it with `scripts/bench remove`.

#[path = "shared/mod.rs"]
mod shared;

use grove_testkit::Sandbox;
use shared::{asked_for, compare_rounds, make_repository, time_command};

fn main() {
    if !asked_for() {
        return;
    }
    println!("removal against `git worktree remove`: median of per-round ratios, and each one's own median");
    for (files, rounds) in [(700, 21), (10_000, 9)] {
        let grove = Sandbox::new(env!("CARGO_BIN_EXE_grove"), make_repository(files));
        let create = |name: &str| grove.grove(["worktree", "create", name, "--json"]).assert_success();
        let of_git = |round: usize| grove.repo.temp_dir().join(format!("git/{round}")).display().to_string();
        // All worktrees are made before the first is removed: making some slows the removal of others.
        create("warm-up");
        for round in 0..rounds {
            create(&format!("ours-{round}"));
            grove.repo.git(&["worktree", "add", "-q", "-b", &format!("gits-{round}"), &of_git(round)]);
        }
        grove.grove(["worktree", "remove", "warm-up"]).assert_success();
        let by_us = |round: usize| {
            time_command(&mut grove.grove_command(["worktree", "remove", &format!("ours-{round}"), "--json"]))
        };
        let by_git = |round: usize| {
            time_command(&mut grove.repo.git_command(grove.repo.path(), &["worktree", "remove", &of_git(round)]))
        };
        compare_rounds(files, rounds, by_us, by_git);
    }
}
