//! Which connections are open, and which one makes way when there are too many.
//!
//! Everything that a peer can do without the token is short, unless the peer itself takes its time: it
//! sends no request, or reads no answer. Such a connection makes way for a new one, the one that moved
//! nothing for the longest time first, of the peer that has most. On loopback all programs share an
//! address, so a limit for that address would lock out the person whose program takes all places; there,
//! making way is all that is needed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How many may be open at once; the rest waits in the kernel's queue. A process may often have no more
/// than 1024 files.
const MAX_CONNECTIONS: usize = 512;

/// How many of them another machine may have.
const MAX_CONNECTIONS_PER_PEER: usize = 128;

/// How long a connection may move nothing before it makes way for a new one.
const STALL_GRACE: Duration = Duration::from_secs(1);

/// How long to wait before looking again whether a connection makes way.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// All open connections.
#[derive(Default)]
pub struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    one_ended: Notify,
}

/// One connection, and whether it is the peer's turn.
pub struct Connection {
    peer: IpAddr,
    began: Instant,
    /// Milliseconds after `began` at which bytes moved last.
    moved: AtomicU64,
    /// A request is worked on or answered; otherwise it is the peer's turn to send one.
    answering: AtomicBool,
    /// The peer does not read what it is sent.
    write_blocked: AtomicBool,
    task: OnceLock<AbortHandle>,
}

/// What is to be done with a new connection.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Admit,
    /// Admit it, and end that one.
    Replace(u64),
    /// Too many of this peer, and it waits for none of them.
    Refuse,
    Wait,
}

/// What is known of an open connection.
struct Facts {
    id: u64,
    peer: IpAddr,
    /// How long it has been the peer's turn without a byte.
    stalled: Option<Duration>,
}

impl Connection {
    fn new(peer: IpAddr) -> Self {
        Self {
            peer,
            began: Instant::now(),
            moved: AtomicU64::default(),
            answering: AtomicBool::default(),
            write_blocked: AtomicBool::default(),
            task: OnceLock::default(),
        }
    }

    /// Notes the task that serves the connection, so that it can be ended. Only the first one counts.
    pub fn set_task(&self, task: AbortHandle) {
        self.task.get_or_init(|| task);
    }

    /// Notes that bytes moved.
    pub fn note_progress(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(now, Ordering::Relaxed);
    }

    pub fn set_answering(&self, answering: bool) {
        self.note_progress();
        self.answering.store(answering, Ordering::Relaxed);
    }

    pub fn set_write_blocked(&self, blocked: bool) {
        self.write_blocked.store(blocked, Ordering::Relaxed);
    }

    pub fn is_write_blocked(&self) -> bool {
        self.write_blocked.load(Ordering::Relaxed)
    }

    fn stalled(&self) -> Option<Duration> {
        let peers_turn = self.is_write_blocked() || !self.answering.load(Ordering::Relaxed);
        let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
        peers_turn.then(|| self.began.elapsed().saturating_sub(moved))
    }
}

impl Connections {
    /// Waits for room and takes a place; `None`: the peer has too many already.
    pub async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let peer = peer_of(address);
        loop {
            // Before the look, so that an end in between is not missed.
            let one_ended = self.one_ended.notified();
            match decide(&self.facts(), peer) {
                Admission::Admit => return Some(self.take_place(peer)),
                Admission::Replace(id) => {
                    self.end(id);
                    return Some(self.take_place(peer));
                }
                Admission::Refuse => return None,
                // Either way there is another look.
                Admission::Wait => _ = tokio::time::timeout(LOOK_AGAIN, one_ended).await,
            }
        }
    }

    fn take_place(self: &Arc<Self>, peer: IpAddr) -> Place {
        let (id, connection) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(Connection::new(peer)));
        self.lock().insert(id, connection.clone());
        Place { connections: self.clone(), id, connection }
    }

    fn facts(&self) -> Vec<Facts> {
        let open = self.lock();
        open.iter().map(|(id, one)| Facts { id: *id, peer: one.peer, stalled: one.stalled() }).collect()
    }

    fn end(&self, id: u64) {
        let Some(connection) = self.lock().remove(&id) else { return };
        tracing::debug!(peer = %connection.peer, "a stalled connection makes way");
        if let Some(task) = connection.task.get() {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place, until it is dropped.
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    pub connection: Arc<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.id);
        self.connections.one_ended.notify_one();
    }
}

/// Returns who an address belongs to, as far as it says: one machine often has all of an IPv6 network.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

fn decide(open: &[Facts], peer: IpAddr) -> Admission {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for one in open {
        *counts.entry(one.peer).or_default() += 1;
    }
    let stalled = || open.iter().filter(|one| one.stalled.is_some_and(|stalled| stalled >= STALL_GRACE));
    let crowded = counts.get(&peer).is_some_and(|count| *count >= MAX_CONNECTIONS_PER_PEER);
    if crowded && !peer.is_loopback() {
        let longest = stalled().filter(|one| one.peer == peer).max_by_key(|one| one.stalled);
        return longest.map_or(Admission::Refuse, |one| Admission::Replace(one.id));
    }
    if open.len() < MAX_CONNECTIONS {
        return Admission::Admit;
    }
    let longest = stalled().max_by_key(|one| (counts.get(&one.peer), one.stalled));
    longest.map_or(Admission::Wait, |one| Admission::Replace(one.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn machine(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn open(peers: &[(IpAddr, usize)], stalled: Option<u64>) -> Vec<Facts> {
        let peers = peers.iter().flat_map(|(peer, count)| std::iter::repeat_n(*peer, *count));
        let stalled = |id: u64| stalled.map(|millis| Duration::from_millis(millis + id));
        (0..).zip(peers).map(|(id, peer)| Facts { id, peer, stalled: stalled(id) }).collect()
    }

    #[test]
    fn a_full_server_lets_the_longest_stalled_connection_of_the_largest_crowd_make_way() {
        assert_eq!(decide(&open(&[(HERE, MAX_CONNECTIONS - 1)], None), HERE), Admission::Admit);
        assert_eq!(decide(&open(&[(HERE, MAX_CONNECTIONS)], None), HERE), Admission::Wait);
        // Whoever was just taken has not had time to say anything.
        assert_eq!(decide(&open(&[(HERE, MAX_CONNECTIONS)], Some(0)), machine(1)), Admission::Wait);
        let full = open(&[(machine(1), 2), (HERE, MAX_CONNECTIONS - 4), (machine(2), 2)], Some(5000));
        let last_of_crowd = u64::try_from(MAX_CONNECTIONS - 3).unwrap();
        for peer in [HERE, machine(1), machine(3)] {
            assert_eq!(decide(&full, peer), Admission::Replace(last_of_crowd), "{peer}");
        }
    }

    #[test]
    fn another_machine_has_only_so_many() {
        let crowd = [(machine(1), MAX_CONNECTIONS_PER_PEER), (HERE, 1)];
        assert_eq!(decide(&open(&crowd, None), machine(1)), Admission::Refuse);
        assert_eq!(decide(&open(&crowd, None), machine(2)), Admission::Admit);
        assert_eq!(decide(&open(&crowd, None), HERE), Admission::Admit);
        let longest = u64::try_from(MAX_CONNECTIONS_PER_PEER - 1).unwrap();
        assert_eq!(decide(&open(&crowd, Some(5000)), machine(1)), Admission::Replace(longest));
        let same = |one: &str, other: &str| peer_of(one.parse().unwrap()) == peer_of(other.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::2:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:127.0.0.1", "127.0.0.1") && !same("192.0.2.1", "192.0.2.2"));
        assert!(peer_of("::1".parse().unwrap()).is_loopback());
    }
}
