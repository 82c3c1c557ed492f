//! Creation against plain git, in the same run, interleaved.
//!
//! Each round makes one worktree with `git worktree add` and one with `grove worktree create`, the
//! order changing from round to round, and divides the two times; the figure is the median of the
//! rounds' ratios. Nothing is deleted between rounds: a bulk delete slows all later creations on
//! ext4. Run it with `scripts/bench create`.

#[path = "shared/mod.rs"]
mod shared;

use grove_testkit::Sandbox;
use shared::{asked_for, compare_rounds, make_repository, time_command};

fn main() {
    if !asked_for() {
        return;
    }
    println!("creation against `git worktree add`: median of per-round ratios, and each one's own median");
    for (files, rounds) in [(700, 25), (10_000, 9)] {
        let grove = Sandbox::new(env!("CARGO_BIN_EXE_grove"), make_repository(files));
        // Registration and the store's first start are not measured.
        grove.grove(["worktree", "create", "warm-up", "--json"]).assert_success();
        let by_us = |round: usize| {
            let mut command = grove.grove_command(["worktree", "create", &format!("ours-{round}"), "--json"]);
            time_command(command.env("MAX_WORKTREES_PER_CODEBASE", "1000"))
        };
        let by_git = |round: usize| {
            let (name, path) = (format!("gits-{round}"), grove.repo.temp_dir().join(format!("git/{round}")));
            let add = ["worktree", "add", "-q", "-b", &name, path.to_str().unwrap()];
            time_command(&mut grove.repo.git_command(grove.repo.path(), &add))
        };
        compare_rounds(files, rounds, by_us, by_git);
    }
}
