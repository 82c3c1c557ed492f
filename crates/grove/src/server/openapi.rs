//! The OpenAPI document of the JSON API.
//!
//! Every handler describes itself with `#[utoipa::path]`, and `routes!` registers its path, its method and its
//! description together, so that the document lists exactly what the router serves. The types in it are those
//! of `api_json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::response::{Response as DocumentedResponse, ResponseBuilder};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, RefOr};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};

use crate::api_json::ErrorJson;

#[derive(OpenApi)]
#[openapi(
    info(title = "Grovekeeper", description = "Git worktrees for coding agents."),
    components(schemas(ErrorJson)),
    modifiers(&TokenScheme),
    security(("token" = [])),
)]
struct ApiDocument;

/// Adds the token that every route needs unless it says otherwise.
struct TokenScheme;

impl Modify for TokenScheme {
    fn modify(&self, document: &mut Document) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", bearer);
    }
}

/// Returns the document without paths; routers add theirs.
pub fn new_document() -> Document {
    ApiDocument::openapi()
}

/// The document as it is sent. The tree that it is made from takes thirty times as much memory.
#[derive(Clone)]
pub struct DocumentText(Arc<str>);

/// Completes the document of all routes. To the router, `{*id}` is a parameter with slashes; in a document all
/// parameters are written alike.
pub fn finish_document(mut document: Document) -> DocumentText {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let text = serde_json::to_string(&document).expect("a document of ours is JSON");
    DocumentText(text.into())
}

/// Returns this document.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    tag = "server",
    responses((status = 200, description = "An OpenAPI 3.1 document.", body = Object), AccessErrors),
)]
pub async fn show_openapi(Extension(DocumentText(text)): Extension<DocumentText>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

/// The refusals of every route that needs the token.
pub enum AccessErrors {}

impl IntoResponses for AccessErrors {
    fn responses() -> BTreeMap<String, RefOr<DocumentedResponse>> {
        describe_errors([
            ("401", "The token is missing or wrong."),
            ("403", "The request is for another host, or from another page."),
            ("503", "The store does not answer."),
        ])
    }
}

/// The refusals of the test adapter, which needs no token.
pub enum TestAdapterErrors {}

impl IntoResponses for TestAdapterErrors {
    fn responses() -> BTreeMap<String, RefOr<DocumentedResponse>> {
        describe_errors([
            ("403", "The request is from another machine or page, or for another host."),
            ("503", "The store does not answer."),
        ])
    }
}

/// The refusals of a route that takes a body.
pub enum BodyErrors {}

impl IntoResponses for BodyErrors {
    fn responses() -> BTreeMap<String, RefOr<DocumentedResponse>> {
        describe_errors([
            ("400", "The request cannot be read, or names something that cannot be."),
            ("408", "The request took too long to arrive."),
            ("413", "The request is too large."),
        ])
    }
}

/// The refusals of a route that names a worktree, with those of the token.
pub enum WorktreeErrors {}

impl IntoResponses for WorktreeErrors {
    fn responses() -> BTreeMap<String, RefOr<DocumentedResponse>> {
        let mut errors = AccessErrors::responses();
        errors.extend(describe_errors([
            ("404", "No worktree has this id or name."),
            ("409", "Refused, with all reasons; or several worktrees have this name."),
            ("507", "The disk is full."),
        ]));
        errors
    }
}

fn describe_errors<const N: usize>(errors: [(&str, &str); N]) -> BTreeMap<String, RefOr<DocumentedResponse>> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ErrorJson::name()))).build();
    let response = |description| {
        ResponseBuilder::new().description(description).content("application/json", content.clone()).build().into()
    };
    errors.map(|(status, description)| (status.to_owned(), response(description))).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::SocketAddr;
    use std::path::Path;

    use axum::body::{Body, to_bytes};
    use axum::extract::ConnectInfo;
    use axum::http::{Request, StatusCode};
    use axum::{Router, response::Response};
    use grove_environments::settings::{ProcessEnvironment, Settings};
    use grove_git::Git;
    use grove_store::{Store, StoreOptions};
    use serde_json::Value;
    use tower::ServiceExt;

    use super::super::{GroveServer, ServerMode, build_router, token_of};

    /// The whole router of a server, and its token.
    async fn start_router(home: &Path) -> (Router, String) {
        let variables = vec![("GROVE_HOME".to_owned(), home.display().to_string())];
        let environment = ProcessEnvironment { variables, cwd: home.to_owned() };
        let mut settings = Settings::load_settings(&environment).unwrap();
        settings.with_flag("--listen", "server.listen", "127.0.0.1:0").unwrap();
        settings.with_flag("--test-adapter", "adapters.test.enabled", "true").unwrap();
        let store = Store::open(&settings.store_url(), StoreOptions::default()).await.unwrap();
        let server = GroveServer::start_server(Git::default(), store, &settings, ServerMode::All).await.unwrap();
        (build_router(server.app), token_of(&settings).unwrap())
    }

    async fn send(router: &Router, token: &str, method: &str, path: &str) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"))
            .extension(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))))
            .body(Body::empty());
        router.clone().oneshot(request.unwrap()).await.unwrap()
    }

    async fn json_of(response: Response) -> Value {
        serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap()
    }

    /// The paths that a router serves, except for pages. Only its debug output names them.
    fn registered_paths(router: &Router) -> BTreeSet<String> {
        let debug = format!("{router:?}");
        let paths = debug.split("RouteId(").filter_map(|part| Some(part.split_once("): \"")?.1.split_once('"')?.0));
        let is_page =
            |path: &str| path == "/" || ["/assets/", "/login/", "/page/"].iter().any(|start| path.starts_with(start));
        let paths = paths.filter(|path| !is_page(path) && !path.contains("__private__"));
        paths.map(|path| path.replace("{*", "{")).collect()
    }

    #[tokio::test]
    async fn the_document_lists_exactly_what_the_router_serves() {
        let home = tempfile::tempdir().unwrap();
        let (router, token) = start_router(home.path()).await;
        let document = json_of(send(&router, &token, "GET", "/api/openapi.json").await).await;
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.keys().cloned().collect::<BTreeSet<_>>(), registered_paths(&router));
        for (path, operations) in paths {
            let address = path.replace("{id}", "nothing");
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                let response = send(&router, &token, method, &address).await;
                let documented = operations.get(method.to_lowercase()).is_some();
                assert_eq!(response.status() != StatusCode::METHOD_NOT_ALLOWED, documented, "{method} {path}");
                if response.status() == StatusCode::NOT_FOUND {
                    let unknown = super::super::words::unknown_route().message;
                    assert_ne!(json_of(response).await["error"]["message"], unknown.as_str(), "{method} {path}");
                }
            }
        }
    }
}
