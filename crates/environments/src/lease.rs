//! This process as an owner, and whether another one still is at work.

use std::fs;
use std::sync::OnceLock;

use grove_git::processes::{Life, life_of};
use grove_model::{Moment, Owner};
use jiff::SignedDuration;

/// How long an owner counts as alive without saying so again, for other machines.
pub const LEASE: SignedDuration = SignedDuration::from_secs(60);

/// This process.
pub fn this_process() -> &'static Owner {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    OWNER.get_or_init(|| Owner {
        node: node(),
        boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_or_else(|_| "unknown".into(), |id| id.trim().into()),
        namespace: pid_namespace(),
        process: std::process::id(),
        started: if let Life::Since(started) = life_of(std::process::id()) { started } else { 0 },
    })
}

/// This machine, as records name it. Without spaces, which separate an owner's parts.
pub fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().replace(' ', "_")
}

fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").ok();
    let digits = link.map(|link| link.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>());
    digits.filter(|digits| !digits.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Whether an owner is known to have ended. Where its processes can be seen from here, they are
/// looked at; anybody else is believed until their lease runs out.
pub fn is_gone(owner: &Owner, lease_until: Option<Moment>, now: Moment) -> bool {
    let us = this_process();
    if owner.node != us.node || owner.namespace != us.namespace {
        return lease_until.is_none_or(|until| now > until);
    }
    let other_process = match life_of(owner.process) {
        Life::Since(started) => started != owner.started,
        Life::Ended => true,
        Life::Unknown => false,
    };
    owner.boot != us.boot || other_process
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_one_that_has_ended_and_one_that_has_its_id() {
        let (us, now) = (this_process().clone(), Moment::now());
        let past = Some(now.plus(SignedDuration::from_secs(-1)));
        assert!(!is_gone(&us, past, now), "slow is not gone");
        assert!(is_gone(&Owner { started: us.started + 1, ..us.clone() }, None, now), "the id was used again");
        assert!(is_gone(&Owner { process: u32::MAX - 1, ..us.clone() }, None, now));
        assert!(is_gone(&Owner { boot: "before".into(), ..us.clone() }, None, now));
        let elsewhere = Owner { node: "elsewhere".into(), ..us };
        assert!(!is_gone(&elsewhere, Some(now.plus(LEASE)), now));
        assert!(is_gone(&elsewhere, past, now));
    }
}
