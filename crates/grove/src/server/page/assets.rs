//! `/assets/…`: files built into the program.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use super::super::ServerState;
use super::super::fault::nothing_there;

pub fn routes() -> Router<Arc<ServerState>> {
    Router::new().route("/assets/{name}", get(serve_asset))
}

/// A file, and the tag by which a browser knows whether its copy is current.
struct PageAsset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    tag: String,
}

static PAGE_ASSETS: LazyLock<Vec<PageAsset>> = LazyLock::new(|| {
    let files: [(&str, &str, &[u8]); 4] = [
        ("app.css", "text/css; charset=utf-8", include_bytes!("../../../assets/app.css")),
        ("app.js", "text/javascript; charset=utf-8", include_bytes!("../../../assets/app.js")),
        ("htmx.min.js", "text/javascript; charset=utf-8", include_bytes!("../../../assets/htmx.min.js")),
        ("icon.svg", "image/svg+xml", include_bytes!("../../../assets/icon.svg")),
    ];
    let asset = |(name, kind, bytes)| PageAsset { name, kind, bytes, tag: format!("\"{:x}\"", Sha256::digest(bytes)) };
    files.into_iter().map(asset).collect()
});

async fn serve_asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(PageAsset { kind, bytes, tag, .. }) = PAGE_ASSETS.iter().find(|asset| asset.name == name) else {
        return nothing_there().await.into_response();
    };
    // The browser keeps the file but checks it each time, so that a newer program takes effect at once.
    let kept = [(ETAG, tag.clone()), (CACHE_CONTROL, "no-cache".to_owned())];
    let has_it = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    if has_it {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(CONTENT_TYPE, *kind)], *bytes).into_response()
}
