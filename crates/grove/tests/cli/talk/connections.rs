//! Peers that take their time, many of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use grove_testkit::{TestEngine, TestServer, TestStore, wait_for};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType};

use super::{registered_sandbox, serve_command, start_test_server};

/// Asks for more than the sockets' buffers hold, and reads nothing of it.
fn connect_slow_reader(server: &TestServer) -> TcpStream {
    let mut stream = connect_small_buffer(server);
    let asked = "GET /assets/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(64);
    stream.write_all(asked.as_bytes()).unwrap();
    stream
}

/// A connection with a small buffer, so that the kernel keeps little of what is not read.
fn connect_small_buffer(server: &TestServer) -> TcpStream {
    let address: SocketAddr = server.address.strip_prefix("http://").unwrap().parse().unwrap();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 4096).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    stream
}

/// The next event of a stream that tells what was said in a conversation.
fn has_next_message(events: &std::sync::mpsc::Receiver<serde_json::Value>, conversation: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    let next = || events.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).any(|event| event["conversation"] == conversation)
}

#[test]
fn peers_that_never_read_lock_no_client_out() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let events = server.subscribe_events();
    let hogs: Vec<TcpStream> = (0..1100).map(|_| connect_slow_reader(&server)).collect();
    for _ in 0..5 {
        let began = Instant::now();
        let answer = server.send_request("GET", "/health", &[], None);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    // A client that reads its events keeps its connection.
    server.say("c", "/help");
    assert!(has_next_message(&events, "c"));
    drop(hogs);
}

#[test]
fn a_peer_that_takes_or_sends_nothing_is_dropped_and_a_stream_that_is_read_is_not() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let mut command = serve_command(&grove);
    command.env("GROVE_SERVER_HEADER_TIMEOUT", "3s").env("GROVE_SERVER_BODY_TIMEOUT", "2s");
    command.env("GROVE_SERVER_SEND_TIMEOUT", "4s");
    let server = TestServer::start_command(command, &grove);
    let events = server.subscribe_events();
    let reader = connect_slow_reader(&server);
    let mut sender = connect_small_buffer(&server);
    sender.write_all(b"POST /test/message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{").unwrap();
    let mut idle = connect_small_buffer(&server);
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let began = Instant::now();
    let mut answer = String::new();
    sender.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    let mut answer = String::new();
    idle.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && began.elapsed() < Duration::from_secs(12), "{answer}");
    // It is reset: it need not read to notice.
    wait_for(|| reader.take_error().unwrap().is_some());
    server.say("c", "/help");
    assert!(has_next_message(&events, "c"), "the stream goes on");
}
