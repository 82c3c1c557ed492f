//! Paginated lists, and responses that are sent only if they changed.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::http::{HttpRequest, HttpResponse};

/// Returns a page of a list, sorted as the request asks, with a link to the next one.
pub fn paginate_list(
    request: &HttpRequest,
    address: &str,
    mut items: Vec<(String, Value)>,
    usual: &str,
) -> HttpResponse {
    if let Some(since) = request.query_value("since") {
        items.retain(|(at, _)| *at >= since);
    }
    let by_time = request.query_value("sort").is_some();
    if by_time {
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
    if request.query_value("direction").as_deref().unwrap_or(usual) == "desc" {
        items.reverse();
    }
    let (size, page) =
        (request.query_number("per_page").unwrap_or(30).min(100), request.query_number("page").unwrap_or(1));
    let values: Vec<Value> = items.iter().skip((page - 1) * size).take(size).map(|(_, value)| value.clone()).collect();
    let response = HttpResponse::from_json(200, &Value::Array(values));
    if items.len() <= page * size {
        return response;
    }
    let others: String =
        request.query.split('&').filter(|part| !part.starts_with("page=")).map(|part| format!("{part}&")).collect();
    let link =
        format!("<{address}{}?{others}page={}>; rel=\"next\", <{address}>; rel=\"last\"", request.path, page + 1);
    response.with_header("link", &link)
}

/// Adds an ETag of the body; returns only the tag, with 304, if the request already has that version.
pub fn with_etag(request: &HttpRequest, response: HttpResponse) -> HttpResponse {
    if request.method != "GET" || response.status != 200 {
        return response;
    }
    let digest: String = Sha256::digest(&response.body).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("W/\"{digest}\"");
    if request.header_value("if-none-match") == Some(&tag) {
        return HttpResponse::new(304, "").with_header("etag", &tag);
    }
    response.with_header("etag", &tag)
}
