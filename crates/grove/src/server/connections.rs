//! The open connections, and the choice of the one to close when there are too many.
//!
//! Everything that a peer can do without the token is short, unless the peer itself takes its time: it sends
//! no request, or reads no answer. Such a connection is closed in favour of a new one: first the one that
//! moved no bytes for the longest time, of the peer that has most. On loopback all programs share an address,
//! so a limit for that address would lock out the person whose program takes all slots; there, closing
//! stalled connections is enough.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The maximum of open connections; the rest wait in the kernel's queue. A process may often have no more
/// than 1024 files.
const MAX_CONNECTIONS: usize = 512;

/// The maximum of open connections of one other machine.
const MAX_CONNECTIONS_PER_PEER: usize = 128;

/// The time without any bytes after which a connection may be closed in favour of a new one.
const STALL_GRACE: Duration = Duration::from_secs(1);

/// The time to wait before checking again whether a connection may be closed.
const ADMISSION_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// All open connections.
#[derive(Default)]
pub struct PeerConnections {
    open: Mutex<HashMap<u64, Arc<PeerConnection>>>,
    next: AtomicU64,
    one_ended: Notify,
}

/// One connection, and whether it is the peer's turn.
pub struct PeerConnection {
    peer: IpAddr,
    began: Instant,
    /// The time of the last moved bytes, in milliseconds after `began`.
    moved: AtomicU64,
    /// The server handles or answers a request; otherwise it is the peer's turn to send one.
    answering: AtomicBool,
    /// The peer does not read the data that it is sent.
    write_blocked: AtomicBool,
    task: OnceLock<AbortHandle>,
}

/// The decision about a new connection.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Admit,
    /// Admit it, and close the connection with this id.
    Replace(u64),
    /// The peer has too many connections, and none of them is stalled.
    Refuse,
    Wait,
}

/// The facts about an open connection that the decision needs.
struct ConnectionFacts {
    id: u64,
    peer: IpAddr,
    /// The time for which it has been the peer's turn without a byte.
    stalled: Option<Duration>,
}

impl PeerConnection {
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

    /// Records the task that serves the connection, so that it can be aborted. Only the first one counts.
    pub fn set_task(&self, task: AbortHandle) {
        self.task.get_or_init(|| task);
    }

    /// Records that bytes moved.
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

    fn stalled_duration(&self) -> Option<Duration> {
        let peers_turn = self.is_write_blocked() || !self.answering.load(Ordering::Relaxed);
        let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
        peers_turn.then(|| self.began.elapsed().saturating_sub(moved))
    }
}

impl PeerConnections {
    /// Waits for a free slot and takes it; `None`: the peer has too many connections already.
    pub async fn admit_peer(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let peer = peer_of(address);
        loop {
            // Before the check, so that a connection that ends in between is not missed.
            let one_ended = self.one_ended.notified();
            match decide_admission(&self.connection_facts(), peer) {
                Admission::Admit => return Some(self.take_place(peer)),
                Admission::Replace(id) => {
                    self.end_connection(id);
                    return Some(self.take_place(peer));
                }
                Admission::Refuse => return None,
                // After a timeout and after a notification alike, the loop checks again.
                Admission::Wait => _ = tokio::time::timeout(ADMISSION_POLL_INTERVAL, one_ended).await,
            }
        }
    }

    fn take_place(self: &Arc<Self>, peer: IpAddr) -> ConnectionSlot {
        let (id, connection) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(PeerConnection::new(peer)));
        self.lock_open().insert(id, connection.clone());
        ConnectionSlot { connections: self.clone(), id, connection }
    }

    fn connection_facts(&self) -> Vec<ConnectionFacts> {
        let open = self.lock_open();
        open.iter()
            .map(|(id, one)| ConnectionFacts { id: *id, peer: one.peer, stalled: one.stalled_duration() })
            .collect()
    }

    fn end_connection(&self, id: u64) {
        let Some(connection) = self.lock_open().remove(&id) else { return };
        tracing::debug!(peer = %connection.peer, "stalled connection closed");
        if let Some(task) = connection.task.get() {
            task.abort();
        }
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<u64, Arc<PeerConnection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a connection, until it is dropped.
pub struct ConnectionSlot {
    connections: Arc<PeerConnections>,
    id: u64,
    pub connection: Arc<PeerConnection>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock_open().remove(&self.id);
        self.connections.one_ended.notify_one();
    }
}

/// Returns the peer that an address identifies: one machine often has a whole IPv6 network.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

fn decide_admission(open: &[ConnectionFacts], peer: IpAddr) -> Admission {
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

    const LOCAL_PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn test_peer(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn open_connections(peers: &[(IpAddr, usize)], stalled: Option<u64>) -> Vec<ConnectionFacts> {
        let peers = peers.iter().flat_map(|(peer, count)| std::iter::repeat_n(*peer, *count));
        let stalled = |id: u64| stalled.map(|millis| Duration::from_millis(millis + id));
        (0..).zip(peers).map(|(id, peer)| ConnectionFacts { id, peer, stalled: stalled(id) }).collect()
    }

    #[test]
    fn a_full_server_lets_the_longest_stalled_connection_of_the_largest_crowd_make_way() {
        assert_eq!(
            decide_admission(&open_connections(&[(LOCAL_PEER, MAX_CONNECTIONS - 1)], None), LOCAL_PEER),
            Admission::Admit
        );
        assert_eq!(
            decide_admission(&open_connections(&[(LOCAL_PEER, MAX_CONNECTIONS)], None), LOCAL_PEER),
            Admission::Wait
        );
        // A connection that was just admitted has not had time to send anything.
        assert_eq!(
            decide_admission(&open_connections(&[(LOCAL_PEER, MAX_CONNECTIONS)], Some(0)), test_peer(1)),
            Admission::Wait
        );
        let full =
            open_connections(&[(test_peer(1), 2), (LOCAL_PEER, MAX_CONNECTIONS - 4), (test_peer(2), 2)], Some(5000));
        let last_of_crowd = u64::try_from(MAX_CONNECTIONS - 3).unwrap();
        for peer in [LOCAL_PEER, test_peer(1), test_peer(3)] {
            assert_eq!(decide_admission(&full, peer), Admission::Replace(last_of_crowd), "{peer}");
        }
    }

    #[test]
    fn another_machine_has_only_so_many() {
        let crowd = [(test_peer(1), MAX_CONNECTIONS_PER_PEER), (LOCAL_PEER, 1)];
        assert_eq!(decide_admission(&open_connections(&crowd, None), test_peer(1)), Admission::Refuse);
        assert_eq!(decide_admission(&open_connections(&crowd, None), test_peer(2)), Admission::Admit);
        assert_eq!(decide_admission(&open_connections(&crowd, None), LOCAL_PEER), Admission::Admit);
        let longest = u64::try_from(MAX_CONNECTIONS_PER_PEER - 1).unwrap();
        assert_eq!(decide_admission(&open_connections(&crowd, Some(5000)), test_peer(1)), Admission::Replace(longest));
        let same = |one: &str, other: &str| peer_of(one.parse().unwrap()) == peer_of(other.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::2:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:127.0.0.1", "127.0.0.1") && !same("192.0.2.1", "192.0.2.2"));
        assert!(peer_of("::1".parse().unwrap()).is_loopback());
    }
}
