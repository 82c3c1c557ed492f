//! A server that takes every connection and says nothing.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Listens on loopback until it is dropped.
pub struct SilentServer {
    address: SocketAddr,
    /// The connections it has; `None` once it hangs up on all.
    connections: Arc<Mutex<Option<Vec<TcpStream>>>>,
    thread: Option<JoinHandle<()>>,
}

impl SilentServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(Mutex::new(Some(Vec::new())));
        let kept = Arc::clone(&connections);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                match (kept.lock().unwrap_or_else(PoisonError::into_inner).as_mut(), stream) {
                    (Some(kept), Ok(stream)) => kept.push(stream),
                    (Some(_), Err(_)) => {}
                    (None, _) => return,
                }
            }
        });
        Self { address, connections, thread: Some(thread) }
    }

    /// The address of a repository there, for git's own protocol.
    pub fn url(&self) -> String {
        format!("git://{}/app.git", self.address)
    }

    /// How many have called.
    pub fn calls(&self) -> usize {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Vec::len)
    }

    /// Ends every connection, and takes no more.
    pub fn hang_up(&self) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
    }
}

impl Drop for SilentServer {
    fn drop(&mut self) {
        self.hang_up();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
