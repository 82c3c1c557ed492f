//! The REST API, as far as a bot uses it.

use serde_json::{Value, json};

use super::caller::ApiCaller;
use super::http::{HttpRequest, HttpResponse, decode_base64, unescape_url};
use super::pages::{paginate_list, with_etag};
use super::state::{FakeComment, FakeGithubState, FakeThread};
use super::{FakeGithubInner, RecordedRequest, RequestFault};

pub type RouteResult = Result<HttpResponse, HttpResponse>;

pub fn error_response(status: u16, message: &str) -> HttpResponse {
    HttpResponse::from_json(
        status,
        &json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() }),
    )
}

pub fn not_found() -> HttpResponse {
    error_response(404, "Not Found")
}

impl FakeGithubInner {
    /// Answers one request, including its planned failure; `None` drops the connection.
    pub fn answer_request(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let fault = self.lock_state().next_fault(request);
        let before = match &fault {
            None | Some(RequestFault::Spared | RequestFault::DropAfter | RequestFault::HoldAfter) => None,
            Some(RequestFault::DropBefore | RequestFault::HoldBefore) => {
                self.log_request(request, "", 0);
                if fault == Some(RequestFault::HoldBefore) {
                    self.held.wait_for_release();
                }
                return None;
            }
            Some(fault) => Some(fault.to_response()),
        };
        let (caller, response) = match before {
            Some(response) => (String::new(), response),
            None if request.path.contains(".git/") => self.answer_git(request),
            None => self.answer_rest(request),
        };
        self.log_request(request, &caller, response.status);
        if fault == Some(RequestFault::HoldAfter) {
            self.held.wait_for_release();
        }
        let breaks = matches!(fault, Some(RequestFault::DropAfter | RequestFault::HoldAfter));
        (!breaks).then_some(response)
    }

    fn log_request(&self, request: &HttpRequest, caller: &str, status: u16) {
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let path = format!("{}{query}", request.path);
        let asked = RecordedRequest { method: request.method.clone(), path, caller: caller.to_owned(), status, body };
        self.lock_state().requests.push(asked);
    }

    fn answer_rest(&self, request: &HttpRequest) -> (String, HttpResponse) {
        let caller = match self.lock_state().identify_caller(request) {
            Ok(caller) => caller,
            Err(response) => return (String::new(), response),
        };
        let name = if let ApiCaller::User(login) = &caller { login.clone() } else { "app".to_owned() };
        let response = self.route_request(request, &caller).unwrap_or_else(|response| response);
        (name, with_etag(request, self.lock_state().add_response_headers(request, response)))
    }

    fn route_request(&self, request: &HttpRequest, caller: &ApiCaller) -> RouteResult {
        let path = unescape_url(&request.path);
        // The prefixes of an Enterprise Server are accepted, too.
        let path = path.strip_prefix("/api/v3").or_else(|| path.strip_prefix("/api")).unwrap_or(&path);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut state = self.lock_state();
        match (request.method.as_str(), parts.as_slice(), caller) {
            // The token of an App belongs to no user.
            ("GET", ["user"], ApiCaller::User(login)) if login.ends_with("[bot]") => {
                Err(error_response(403, "Resource not accessible by integration"))
            }
            ("GET", ["user"], ApiCaller::User(login)) => ok_response(&state.user_json(login)),
            ("GET", ["users", login], _) => ok_response(&state.user_json(login)),
            ("GET", ["app"], ApiCaller::App) => ok_response(&state.app_json()),
            ("GET", ["app", "installations"], ApiCaller::App) => ok_response(&json!([state.installation_json()])),
            ("POST", ["app", "installations", id, "access_tokens"], ApiCaller::App) => state.new_token(id),
            ("GET", ["app", "hook", "config"], ApiCaller::App) => ok_response(&self.hooks.of_app_json()),
            ("GET", ["app", "hook", "deliveries"], ApiCaller::App) => ok_response(&self.hooks.app_deliveries_json()),
            ("GET", ["repos", owner, name, "installation"], ApiCaller::App) => {
                let known = state.repos.contains_key(&format!("{owner}/{name}").to_lowercase());
                ok_response(&if known { state.installation_json() } else { Value::Null })
            }
            ("POST", ["graphql"], ApiCaller::User(_)) => Ok(state.answer_graphql(&body)),
            (method, ["repos", owner, name, rest @ ..], ApiCaller::User(login)) => {
                let full = format!("{owner}/{name}");
                if let Some(to) = state.moved.get(&full.to_lowercase()).cloned() {
                    let location = format!("{}/repos/{to}/{}", state.address, rest.join("/"));
                    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
                    return Ok(error_response(307, "Moved")
                        .with_header("location", &format!("{}{query}", location.trim_end_matches('/'))));
                }
                let full = state.visible_repo_name(&full, login)?;
                self.of_repository(state, request, (method, rest), &full, login, &body)
            }
            _ => Err(not_found()),
        }
    }

    fn of_repository(
        &self,
        mut state: std::sync::MutexGuard<'_, FakeGithubState>,
        request: &HttpRequest,
        route: (&str, &[&str]),
        repo: &str,
        login: &str,
        body: &Value,
    ) -> RouteResult {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        match route {
            ("GET", []) => ok_response(&state.repo_as_seen_json(repo, login)),
            ("GET", ["hooks"]) => {
                state.may_see_hooks(request, repo, login)?;
                ok_response(&self.hooks.of_repository_json())
            }
            ("GET", ["collaborators", user, "permission"]) => state.permission_json(repo, login, user),
            ("GET", ["issues"]) => {
                let mut threads: Vec<FakeThread> = state.repo_mut(repo).threads.values().cloned().collect();
                let wanted = request.query_value("state").unwrap_or_else(|| "open".to_owned());
                threads.retain(|thread| wanted == "all" || (wanted == "open") == thread.open);
                let items = threads.iter().map(|thread| (thread.updated_at.clone(), state.issue_json(repo, thread)));
                Ok(paginate_list(request, &state.address, items.collect(), "desc"))
            }
            ("GET", ["issues", "comments"]) => {
                let threads: Vec<FakeThread> = state.repo_mut(repo).threads.values().cloned().collect();
                let all = threads.iter().flat_map(|thread| thread.comments.iter().map(move |one| (thread.number, one)));
                let items = all.map(|(number, one)| (one.updated_at.clone(), state.comment_json(repo, number, one)));
                Ok(paginate_list(request, &state.address, items.collect(), "asc"))
            }
            ("GET", ["pulls", "comments"]) => {
                let threads: Vec<FakeThread> = state.repo_mut(repo).threads.values().cloned().collect();
                let all = threads.iter().flat_map(|thread| {
                    thread.pull.iter().flat_map(|pull| &pull.lines).map(move |one| (thread.number, one))
                });
                let items = all.map(|(number, one)| (one.updated_at.clone(), state.comment_json(repo, number, one)));
                Ok(paginate_list(request, &state.address, items.collect(), "asc"))
            }
            ("GET" | "PATCH" | "POST", ["issues", "comments", id]) => {
                let id = id.parse().map_err(|_| not_found())?;
                if request.method != "GET" {
                    check_length(&text("body"))?;
                    let now = state.next_timestamp();
                    let (_, comment) = state.comment_mut(repo, id).ok_or_else(not_found)?;
                    if comment.author != login {
                        return Err(error_response(403, "Must have admin rights to Repository."));
                    }
                    comment.edit_body(login, &text("body"), &now);
                    self.tell_comment(&mut state, repo, login, id, "edited");
                }
                let (number, comment) = state.comment_mut(repo, id).ok_or_else(not_found)?;
                let comment = comment.clone();
                ok_response(&state.comment_json(repo, number, &comment))
            }
            ("POST", ["issues" | "pulls", "comments", id, "reactions"]) => {
                let id = id.parse().map_err(|_| not_found())?;
                let (_, comment) = state.comment_mut(repo, id).ok_or_else(not_found)?;
                Ok(add_reaction(&mut comment.reactions, login, &text("content")))
            }
            ("POST", ["issues", number, "reactions"]) => {
                let thread = state.find_thread(repo, number)?.number;
                Ok(add_reaction(&mut state.thread_mut(repo, thread).reactions, login, &text("content")))
            }
            ("GET", ["issues", number]) => {
                let thread = state.find_thread(repo, number)?;
                ok_response(&state.issue_json(repo, &thread))
            }
            ("GET", ["issues", number, "comments"]) => {
                let thread = state.find_thread(repo, number)?;
                let items = thread
                    .comments
                    .iter()
                    .map(|one| (one.updated_at.clone(), state.comment_json(repo, thread.number, one)));
                Ok(paginate_list(request, &state.address, items.collect(), "asc"))
            }
            ("POST", ["issues", number, "comments"]) => {
                let number = state.find_thread(repo, number)?.number;
                check_length(&text("body"))?;
                let comment = state.new_comment(login, &text("body"));
                let thread = state.thread_mut(repo, number);
                thread.updated_at.clone_from(&comment.updated_at);
                thread.comments.push(comment.clone());
                self.tell_comment(&mut state, repo, login, comment.id, "created");
                Ok(HttpResponse::from_json(201, &state.comment_json(repo, number, &comment)))
            }
            ("GET", ["pulls"]) => {
                let mut threads: Vec<FakeThread> = state.repo_mut(repo).threads.values().cloned().collect();
                let (wanted, head) =
                    (request.query_value("state").unwrap_or_else(|| "open".to_owned()), request.query_value("head"));
                threads.retain(|thread| {
                    let Some(pull) = &thread.pull else { return false };
                    let owner = pull.head_repo.split('/').next().unwrap_or_default();
                    let label = format!("{owner}:{}", pull.head_branch);
                    (wanted == "all" || (wanted == "open") == thread.open)
                        && head.as_ref().is_none_or(|head| *head == label)
                });
                let by_change = request.query_value("sort").as_deref() == Some("updated");
                let items = threads.iter().map(|thread| {
                    let at = if by_change { &thread.updated_at } else { &thread.created_at };
                    (at.clone(), state.pull_json(repo, thread, false))
                });
                Ok(paginate_list(request, &state.address, items.collect(), "desc"))
            }
            ("POST", ["pulls"]) => {
                let (head, base) = (text("head"), text("base"));
                let head = head.rsplit(':').next().unwrap_or_default();
                let number = self.new_pull(&mut state, repo, login, (repo, head, &base), &text("title"), &text("body"));
                let number = number.map_err(|why| error_response(422, &format!("Validation Failed: {why}")))?;
                self.tell_pull(&mut state, repo, login, number, "opened");
                let thread = state.thread_mut(repo, number).clone();
                Ok(HttpResponse::from_json(201, &state.pull_json(repo, &thread, true)))
            }
            ("GET", ["pulls", number]) => {
                let thread = state.find_pull(repo, number)?;
                ok_response(&state.pull_json(repo, &thread, true))
            }
            ("GET", ["pulls", number, "files"]) => {
                let thread = state.find_pull(repo, number)?;
                let pull = thread.pull.as_ref().ok_or_else(not_found)?;
                let changes = self.repos.changed_files(repo, &pull.base_sha, &pull.head_sha);
                let items = changes.into_iter().map(|change| {
                    let mut json = json!({ "filename": change.file, "status": change.status, "sha": null,
                        "additions": change.additions, "deletions": change.deletions });
                    if let Some(previous) = change.previous_file {
                        json["previous_filename"] = json!(previous);
                    }
                    (String::new(), json)
                });
                Ok(paginate_list(request, &state.address, items.collect(), "asc"))
            }
            ("GET", ["pulls", number, kind @ ("comments" | "reviews")]) => {
                let thread = state.find_pull(repo, number)?;
                let pull = thread.pull.as_ref().ok_or_else(not_found)?;
                let json = |one: &FakeComment| match *kind {
                    "reviews" => state.review_json(one),
                    _ => state.comment_json(repo, thread.number, one),
                };
                let all = if *kind == "reviews" { &pull.reviews } else { &pull.lines };
                let items = all.iter().map(|one| (one.updated_at.clone(), json(one))).collect();
                Ok(paginate_list(request, &state.address, items, "asc"))
            }
            _ => Err(not_found()),
        }
    }

    /// Answers a request of git, which must have a valid token as its password.
    fn answer_git(&self, request: &HttpRequest) -> (String, HttpResponse) {
        let basic = request.header_value("authorization").and_then(|value| value.strip_prefix("Basic "));
        let shown = basic.and_then(decode_base64).and_then(|text| String::from_utf8(text).ok());
        let token = shown.as_deref().and_then(|text| text.split_once(':')).map(|(_, token)| token.to_owned());
        let login = token.and_then(|token| self.lock_state().token_login(&token));
        let Some(login) = login else {
            let refused = HttpResponse::new(401, "Authentication required")
                .with_header("www-authenticate", "Basic realm=\"GitHub\"");
            return (String::new(), refused);
        };
        let repo = request.path.trim_start_matches('/').split(".git/").next().unwrap_or_default().to_owned();
        let writes = request.path.ends_with("git-receive-pack") || request.query.contains("git-receive-pack");
        let role = {
            let state = self.lock_state();
            state.repos.get(&repo.to_lowercase()).map_or("none", |repo| state.user_role(repo, &login))
        };
        match role {
            "none" => return (login, HttpResponse::new(404, "Repository not found.")),
            "read" | "triage" if writes => return (login, HttpResponse::new(403, "Write access not granted.")),
            _ => {}
        }
        let response = self.repos.serve_git_request(request, &login);
        if request.method == "POST" && writes {
            self.after_push(&repo, &login);
        }
        (login, response)
    }
}

fn ok_response(json: &Value) -> RouteResult {
    if json.is_null() { Err(not_found()) } else { Ok(HttpResponse::from_json(200, json)) }
}

fn check_length(body: &str) -> Result<(), HttpResponse> {
    match body.chars().count() {
        0 => Err(error_response(422, "Validation Failed: body cannot be blank")),
        1..=65_536 => Ok(()),
        _ => Err(error_response(422, "Validation Failed: body is too long (maximum is 65536 characters)")),
    }
}

fn add_reaction(reactions: &mut Vec<(String, String)>, login: &str, content: &str) -> HttpResponse {
    let reaction = (login.to_owned(), content.to_owned());
    let status = if reactions.contains(&reaction) { 200 } else { 201 };
    if status == 201 {
        reactions.push(reaction);
    }
    HttpResponse::from_json(status, &json!({ "id": 1, "content": content }))
}

impl FakeComment {
    pub fn edit_body(&mut self, editor: &str, body: &str, now: &str) {
        self.editor = Some(editor.to_owned());
        self.body = body.to_owned();
        self.updated_at = now.to_owned();
        self.versions.push(body.to_owned());
    }
}

impl FakeGithubState {
    /// Returns the name of a repository as GitHub writes it, if the user may see it.
    fn visible_repo_name(&self, name: &str, login: &str) -> Result<String, HttpResponse> {
        let repo = self.repos.get(&name.to_lowercase()).ok_or_else(not_found)?;
        if self.user_role(repo, login) == "none" { Err(not_found()) } else { Ok(repo.name.clone()) }
    }

    fn permission_json(&self, repo: &str, asking: &str, login: &str) -> RouteResult {
        let repo = self.repos.get(&repo.to_lowercase()).ok_or_else(not_found)?;
        if matches!(self.user_role(repo, asking), "read" | "triage") {
            return Err(error_response(403, "Must have push access to view collaborator permission."));
        }
        if !self.users.contains_key(&login.to_lowercase()) || login.ends_with("[bot]") {
            return Err(error_response(404, &format!("{login} is not a user")));
        }
        let role = self.user_role(repo, login);
        let permission = match role {
            "maintain" => "write",
            "triage" => "read",
            role => role,
        };
        ok_response(&json!({ "permission": permission, "role_name": role, "user": self.user_json(login) }))
    }

    fn find_thread(&self, repo: &str, number: &str) -> Result<FakeThread, HttpResponse> {
        let repo = self.repos.get(&repo.to_lowercase()).ok_or_else(not_found)?;
        let number: u64 = number.parse().map_err(|_| not_found())?;
        repo.threads.get(&number).cloned().ok_or_else(not_found)
    }

    pub(super) fn find_pull(&self, repo: &str, number: &str) -> Result<FakeThread, HttpResponse> {
        self.find_thread(repo, number)
            .and_then(|thread| if thread.pull.is_some() { Ok(thread) } else { Err(not_found()) })
    }
}
