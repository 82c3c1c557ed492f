//! A server that accepts every connection and sends nothing.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Listens on loopback until it is dropped.
pub struct SilentServer {
    address: SocketAddr,
    /// The open connections; `None` once it has closed them all.
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

    /// Returns the address of a repository on it, for git's own protocol.
    pub fn repository_url(&self) -> String {
        format!("git://{}/app.git", self.address)
    }

    /// Returns the number of connections.
    pub fn call_count(&self) -> usize {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Vec::len)
    }

    /// Closes every connection, and accepts no more.
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
