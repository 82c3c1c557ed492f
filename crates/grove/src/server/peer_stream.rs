//! Watches a connection's bytes and bodies: a peer that reads nothing for too long is dropped.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::connections::PeerConnection;

/// A stream that knows when its peer does not read.
pub struct PeerStream {
    stream: TcpStream,
    connection: Arc<PeerConnection>,
    /// The time for which the peer may read no byte of the data that it is sent.
    write_timeout: Duration,
    /// Runs while a write waits for the peer.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl PeerStream {
    pub fn new(stream: TcpStream, connection: Arc<PeerConnection>, write_timeout: Duration) -> Self {
        Self { stream, connection, write_timeout, write_deadline: None }
    }

    fn note_write(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.write_deadline = None;
            self.connection.set_write_blocked(false);
            self.connection.note_progress();
            return Poll::Ready(written);
        }
        self.connection.set_write_blocked(true);
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.write_timeout)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing")))
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.note_progress();
        }
        read
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.note_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        // Otherwise the kernel would keep the data that the peer does not read, and go on probing the peer.
        if self.connection.is_write_blocked()
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "connection not reset");
        }
    }
}

/// A body that passes the turn to the other side at its end.
pub struct TurnBody<B> {
    body: B,
    connection: Arc<PeerConnection>,
    /// The server answers after the body's end; otherwise the peer has to send a request.
    answers_next: bool,
}

impl<B: HttpBody> TurnBody<B> {
    /// Wraps a request's body: when it is complete, or not wanted, the server answers.
    pub fn of_request(body: B, connection: Arc<PeerConnection>) -> Self {
        Self::new(body, connection, true)
    }

    /// Wraps an answer's body: when it is written, the server waits for the peer's next request.
    pub fn of_response(body: B, connection: Arc<PeerConnection>) -> Self {
        Self::new(body, connection, false)
    }

    fn new(body: B, connection: Arc<PeerConnection>, answers_next: bool) -> Self {
        if body.is_end_stream() {
            connection.set_answering(answers_next);
        }
        Self { body, connection, answers_next }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for TurnBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.connection.set_answering(self.answers_next);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for TurnBody<B> {
    fn drop(&mut self) {
        self.connection.set_answering(self.answers_next);
    }
}
