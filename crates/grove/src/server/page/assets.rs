//! `/assets/…`: built into the program.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use super::super::App;
use super::super::fault::nothing_there;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/assets/{name}", get(asset))
}

fn file(name: &str) -> Option<(&'static str, &'static [u8])> {
    Some(match name {
        "app.css" => ("text/css; charset=utf-8", include_bytes!("../../../assets/app.css")),
        "app.js" => ("text/javascript; charset=utf-8", include_bytes!("../../../assets/app.js")),
        "htmx.min.js" => ("text/javascript; charset=utf-8", include_bytes!("../../../assets/htmx.min.js")),
        "icon.svg" => ("image/svg+xml", include_bytes!("../../../assets/icon.svg")),
        _ => return None,
    })
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((kind, bytes)) = file(&name) else { return nothing_there().await.into_response() };
    let tag = format!("\"{:x}\"", Sha256::digest(bytes));
    // Kept, but asked for each time: a newer program is seen at once.
    let kept = [(ETAG, tag.clone()), (CACHE_CONTROL, "no-cache".to_owned())];
    let has_it = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    if has_it {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(CONTENT_TYPE, kind)], bytes).into_response()
}
