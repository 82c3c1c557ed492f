//! A small HTTP server, with no more than a fake needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request of a client.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
    pub fn header_value(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter of the query, unescaped.
    pub fn query_value(&self, name: &str) -> Option<String> {
        let parts = self.query.split('&').filter_map(|part| part.split_once('='));
        parts.filter(|(known, _)| *known == name).map(|(_, value)| unescape_url(value)).next()
    }

    pub fn query_number(&self, name: &str) -> Option<usize> {
        self.query_value(name)?.parse().ok()
    }
}

/// A response to a client.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    pub fn from_json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, body.to_string()).with_header("content-type", "application/json; charset=utf-8")
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Serves requests until `ending` is set; a handler that returns `None` drops the connection.
pub fn serve_requests<F>(listener: TcpListener, ending: Arc<AtomicBool>, answer: F)
where
    F: Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if ending.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = stream else { continue };
            let answer = answer.clone();
            std::thread::spawn(move || {
                // A client that disconnects in the middle is no error.
                let _ = handle_connection(stream, &*answer);
            });
        }
    });
}

fn handle_connection(stream: TcpStream, answer: &dyn Fn(&HttpRequest) -> Option<HttpResponse>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    while let Some(request) = read_request(&mut reader, &mut writer)? {
        let Some(response) = answer(&request) else {
            return writer.shutdown(std::net::Shutdown::Both);
        };
        let mut head = format!("HTTP/1.1 {} Status\r\ncontent-length: {}\r\n", response.status, response.body.len());
        for (name, value) in &response.headers {
            head += &format!("{name}: {value}\r\n");
        }
        writer.write_all(head.as_bytes())?;
        writer.write_all(b"\r\n")?;
        writer.write_all(&response.body)?;
        writer.flush()?;
    }
    Ok(())
}

fn invalid_data_error(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn read_request(reader: &mut BufReader<TcpStream>, writer: &mut TcpStream) -> io::Result<Option<HttpRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(invalid_data_error("no request"));
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        ..HttpRequest::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    if request.header_value("expect").is_some() {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if request.header_value("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        request.body = read_chunks(reader)?;
    } else if let Some(length) = request.header_value("content-length") {
        request.body = vec![0; length.parse().map_err(|_| invalid_data_error("no length"))?];
        reader.read_exact(&mut request.body)?;
    }
    Ok(Some(request))
}

fn read_chunks(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let digits = line.trim().split(';').next().unwrap_or_default();
        let length = usize::from_str_radix(digits, 16).map_err(|_| invalid_data_error("no chunk"))?;
        let start = body.len();
        body.resize(start + length + 2, 0);
        reader.read_exact(&mut body[start..])?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(body);
        }
    }
}

pub fn unescape_url(text: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                out.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Decodes Base64, of either alphabet.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0u32);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, held) = ((bits << 6) | u32::from(digit), held + 6);
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from((bits >> held) & 0xff).ok()?);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}
