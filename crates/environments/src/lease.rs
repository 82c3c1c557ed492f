//! This process as an owner, and the check whether another owner is still running.

use std::fs;
use std::sync::OnceLock;

use grove_git::processes::{ProcessLifetime, end_calls_of, life_of};
use grove_model::{Moment, ProcessOwner};
use jiff::SignedDuration;

/// The time for which other machines take an owner as alive after it last renewed its lease.
pub const OWNER_LEASE_DURATION: SignedDuration = SignedDuration::from_secs(60);

/// Returns this process as an owner.
pub fn this_process() -> &'static ProcessOwner {
    static THIS_PROCESS_OWNER: OnceLock<ProcessOwner> = OnceLock::new();
    THIS_PROCESS_OWNER.get_or_init(|| ProcessOwner {
        node: node_name(),
        boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_or_else(|_| "unknown".into(), |id| id.trim().into()),
        namespace: pid_namespace(),
        process: std::process::id(),
        started: if let ProcessLifetime::Since(started) = life_of(std::process::id()) { started } else { 0 },
    })
}

/// Returns the name of this machine in records. It has no spaces, which separate the parts of an owner.
pub fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().replace(' ', "_")
}

fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").ok();
    let digits = link.map(|link| link.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>());
    digits.filter(|digits| !digits.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Tells whether an owner is known to have ended. An owner whose processes can be seen from here is checked;
/// any other owner counts as alive until its lease runs out.
pub fn is_gone(owner: &ProcessOwner, lease_until: Option<Moment>, now: Moment) -> bool {
    let us = this_process();
    if !is_visible(owner) {
        return lease_until.is_none_or(|until| now > until);
    }
    let other_process = match life_of(owner.process) {
        ProcessLifetime::Since(started) => started != owner.started,
        ProcessLifetime::Ended => true,
        ProcessLifetime::Unknown => false,
    };
    owner.boot != us.boot || other_process
}

/// Tells whether the processes of an owner can be seen from here.
fn is_visible(owner: &ProcessOwner) -> bool {
    let us = this_process();
    (&owner.node, &owner.namespace) == (&us.node, &us.namespace)
}

/// Ends the git processes that an owner which is gone left running: they may still be writing.
pub async fn end_calls_of_gone(owner: &ProcessOwner) {
    if is_visible(owner) && owner.boot == this_process().boot {
        end_calls_of(owner.process, owner.started).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_one_that_has_ended_and_one_that_has_its_id() {
        let (us, now) = (this_process().clone(), Moment::now());
        let past = Some(now.add_duration(SignedDuration::from_secs(-1)));
        assert!(!is_gone(&us, past, now), "slow is not gone");
        assert!(is_gone(&ProcessOwner { started: us.started + 1, ..us.clone() }, None, now), "the id was used again");
        assert!(is_gone(&ProcessOwner { process: u32::MAX - 1, ..us.clone() }, None, now));
        assert!(is_gone(&ProcessOwner { boot: "before".into(), ..us.clone() }, None, now));
        let elsewhere = ProcessOwner { node: "elsewhere".into(), ..us };
        assert!(!is_gone(&elsewhere, Some(now.add_duration(OWNER_LEASE_DURATION)), now));
        assert!(is_gone(&elsewhere, past, now));
    }
}
