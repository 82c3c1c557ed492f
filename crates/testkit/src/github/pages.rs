//! Lists in pages, and answers that are sent only if they changed.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::http::{Request, Response};

/// A page of a list, sorted as it was asked for, with a link to the next one.
pub fn listed(request: &Request, address: &str, mut items: Vec<(String, Value)>, usual: &str) -> Response {
    if let Some(since) = request.asked("since") {
        items.retain(|(at, _)| *at >= since);
    }
    let by_time = request.asked("sort").is_some();
    if by_time {
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
    if request.asked("direction").as_deref().unwrap_or(usual) == "desc" {
        items.reverse();
    }
    let (size, page) = (request.number("per_page").unwrap_or(30).min(100), request.number("page").unwrap_or(1));
    let values: Vec<Value> = items.iter().skip((page - 1) * size).take(size).map(|(_, value)| value.clone()).collect();
    let response = Response::json(200, &Value::Array(values));
    if items.len() <= page * size {
        return response;
    }
    let others: String =
        request.query.split('&').filter(|part| !part.starts_with("page=")).map(|part| format!("{part}&")).collect();
    let link =
        format!("<{address}{}?{others}page={}>; rel=\"next\", <{address}>; rel=\"last\"", request.path, page + 1);
    response.with("link", &link)
}

/// With a tag that changes with what is said, and nothing but that if it did not change.
pub fn tagged(request: &Request, response: Response) -> Response {
    if request.method != "GET" || response.status != 200 {
        return response;
    }
    let digest: String = Sha256::digest(&response.body).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("W/\"{digest}\"");
    if request.header("if-none-match") == Some(&tag) {
        return Response::new(304, "").with("etag", &tag);
    }
    response.with("etag", &tag)
}
