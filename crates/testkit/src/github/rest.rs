//! The REST API, as far as a bot uses it.

use serde_json::{Value, json};

use super::caller::Caller;
use super::http::{Request, Response, base64, unescaped};
use super::pages::{listed, tagged};
use super::state::{Comment, State, Thread};
use super::{Asked, Fault, Inner};

pub type Answer = Result<Response, Response>;

pub fn problem(status: u16, message: &str) -> Response {
    Response::json(
        status,
        &json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() }),
    )
}

pub fn not_found() -> Response {
    problem(404, "Not Found")
}

impl Inner {
    /// One request from end to end; `None` drops the connection.
    pub fn answer(&self, request: &Request) -> Option<Response> {
        let fault = self.state().next_fault(request);
        let before = match &fault {
            None | Some(Fault::Spared | Fault::DropAfter | Fault::HoldAfter) => None,
            Some(Fault::DropBefore | Fault::HoldBefore) => {
                self.log(request, "", 0);
                if fault == Some(Fault::HoldBefore) {
                    self.held.hold();
                }
                return None;
            }
            Some(fault) => Some(fault.response()),
        };
        let (caller, response) = match before {
            Some(response) => (String::new(), response),
            None if request.path.contains(".git/") => self.git(request),
            None => self.rest(request),
        };
        self.log(request, &caller, response.status);
        if fault == Some(Fault::HoldAfter) {
            self.held.hold();
        }
        let breaks = matches!(fault, Some(Fault::DropAfter | Fault::HoldAfter));
        (!breaks).then_some(response)
    }

    fn log(&self, request: &Request, caller: &str, status: u16) {
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let path = format!("{}{query}", request.path);
        let asked = Asked { method: request.method.clone(), path, caller: caller.to_owned(), status, body };
        self.state().requests.push(asked);
    }

    fn rest(&self, request: &Request) -> (String, Response) {
        let caller = match self.state().caller(request) {
            Ok(caller) => caller,
            Err(response) => return (String::new(), response),
        };
        let name = if let Caller::User(login) = &caller { login.clone() } else { "app".to_owned() };
        let response = self.route(request, &caller).unwrap_or_else(|response| response);
        (name, tagged(request, self.state().headed(request, response)))
    }

    fn route(&self, request: &Request, caller: &Caller) -> Answer {
        let path = unescaped(&request.path);
        // As an Enterprise Server has it, too.
        let path = path.strip_prefix("/api/v3").or_else(|| path.strip_prefix("/api")).unwrap_or(&path);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut state = self.state();
        match (request.method.as_str(), parts.as_slice(), caller) {
            // Whose token is no person's is nobody.
            ("GET", ["user"], Caller::User(login)) if login.ends_with("[bot]") => {
                Err(problem(403, "Resource not accessible by integration"))
            }
            ("GET", ["user"], Caller::User(login)) => found(&state.user_json(login)),
            ("GET", ["users", login], _) => found(&state.user_json(login)),
            ("GET", ["app"], Caller::App) => found(&state.app_json()),
            ("GET", ["app", "installations"], Caller::App) => found(&json!([state.installation_json()])),
            ("POST", ["app", "installations", id, "access_tokens"], Caller::App) => state.new_token(id),
            ("GET", ["app", "hook", "config"], Caller::App) => found(&self.hooks.of_app_json()),
            ("GET", ["app", "hook", "deliveries"], Caller::App) => found(&self.hooks.app_deliveries_json()),
            ("GET", ["repos", owner, name, "installation"], Caller::App) => {
                let known = state.repos.contains_key(&format!("{owner}/{name}").to_lowercase());
                found(&if known { state.installation_json() } else { Value::Null })
            }
            ("POST", ["graphql"], Caller::User(_)) => Ok(state.graphql(&body)),
            (method, ["repos", owner, name, rest @ ..], Caller::User(login)) => {
                let full = format!("{owner}/{name}");
                if let Some(to) = state.moved.get(&full.to_lowercase()).cloned() {
                    let location = format!("{}/repos/{to}/{}", state.address, rest.join("/"));
                    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
                    return Ok(
                        problem(307, "Moved").with("location", &format!("{}{query}", location.trim_end_matches('/')))
                    );
                }
                let full = state.visible(&full, login)?;
                self.of_repository(state, request, (method, rest), &full, login, &body)
            }
            _ => Err(not_found()),
        }
    }

    fn of_repository(
        &self,
        mut state: std::sync::MutexGuard<'_, State>,
        request: &Request,
        route: (&str, &[&str]),
        repo: &str,
        login: &str,
        body: &Value,
    ) -> Answer {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        match route {
            ("GET", []) => found(&state.repo_as_seen_json(repo, login)),
            ("GET", ["hooks"]) => {
                state.may_see_hooks(request, repo, login)?;
                found(&self.hooks.of_repository_json())
            }
            ("GET", ["collaborators", user, "permission"]) => state.permission(repo, login, user),
            ("GET", ["issues"]) => {
                let mut threads: Vec<Thread> = state.repo(repo).threads.values().cloned().collect();
                let wanted = request.asked("state").unwrap_or_else(|| "open".to_owned());
                threads.retain(|thread| wanted == "all" || (wanted == "open") == thread.open);
                let items = threads.iter().map(|thread| (thread.updated_at.clone(), state.issue_json(repo, thread)));
                Ok(listed(request, &state.address, items.collect(), "desc"))
            }
            ("GET", ["issues", "comments"]) => {
                let threads: Vec<Thread> = state.repo(repo).threads.values().cloned().collect();
                let all = threads.iter().flat_map(|thread| thread.comments.iter().map(move |one| (thread.number, one)));
                let items = all.map(|(number, one)| (one.updated_at.clone(), state.comment_json(repo, number, one)));
                Ok(listed(request, &state.address, items.collect(), "asc"))
            }
            ("GET", ["pulls", "comments"]) => {
                let threads: Vec<Thread> = state.repo(repo).threads.values().cloned().collect();
                let all = threads.iter().flat_map(|thread| {
                    thread.pull.iter().flat_map(|pull| &pull.lines).map(move |one| (thread.number, one))
                });
                let items = all.map(|(number, one)| (one.updated_at.clone(), state.comment_json(repo, number, one)));
                Ok(listed(request, &state.address, items.collect(), "asc"))
            }
            ("GET" | "PATCH" | "POST", ["issues", "comments", id]) => {
                let id = id.parse().map_err(|_| not_found())?;
                if request.method != "GET" {
                    check_length(&text("body"))?;
                    let now = state.tick();
                    let (_, comment) = state.comment(repo, id).ok_or_else(not_found)?;
                    if comment.author != login {
                        return Err(problem(403, "Must have admin rights to Repository."));
                    }
                    comment.rewrite(login, &text("body"), &now);
                    self.tell_comment(&mut state, repo, login, id, "edited");
                }
                let (number, comment) = state.comment(repo, id).ok_or_else(not_found)?;
                let comment = comment.clone();
                found(&state.comment_json(repo, number, &comment))
            }
            ("POST", ["issues" | "pulls", "comments", id, "reactions"]) => {
                let id = id.parse().map_err(|_| not_found())?;
                let (_, comment) = state.comment(repo, id).ok_or_else(not_found)?;
                Ok(react(&mut comment.reactions, login, &text("content")))
            }
            ("POST", ["issues", number, "reactions"]) => {
                let thread = state.find_thread(repo, number)?.number;
                Ok(react(&mut state.thread(repo, thread).reactions, login, &text("content")))
            }
            ("GET", ["issues", number]) => {
                let thread = state.find_thread(repo, number)?;
                found(&state.issue_json(repo, &thread))
            }
            ("GET", ["issues", number, "comments"]) => {
                let thread = state.find_thread(repo, number)?;
                let items = thread
                    .comments
                    .iter()
                    .map(|one| (one.updated_at.clone(), state.comment_json(repo, thread.number, one)));
                Ok(listed(request, &state.address, items.collect(), "asc"))
            }
            ("POST", ["issues", number, "comments"]) => {
                let number = state.find_thread(repo, number)?.number;
                check_length(&text("body"))?;
                let comment = state.new_comment(login, &text("body"));
                let thread = state.thread(repo, number);
                thread.updated_at.clone_from(&comment.updated_at);
                thread.comments.push(comment.clone());
                self.tell_comment(&mut state, repo, login, comment.id, "created");
                Ok(Response::json(201, &state.comment_json(repo, number, &comment)))
            }
            ("GET", ["pulls"]) => {
                let mut threads: Vec<Thread> = state.repo(repo).threads.values().cloned().collect();
                let (wanted, head) =
                    (request.asked("state").unwrap_or_else(|| "open".to_owned()), request.asked("head"));
                threads.retain(|thread| {
                    let Some(pull) = &thread.pull else { return false };
                    let owner = pull.head_repo.split('/').next().unwrap_or_default();
                    let label = format!("{owner}:{}", pull.head_branch);
                    (wanted == "all" || (wanted == "open") == thread.open)
                        && head.as_ref().is_none_or(|head| *head == label)
                });
                let by_change = request.asked("sort").as_deref() == Some("updated");
                let items = threads.iter().map(|thread| {
                    let at = if by_change { &thread.updated_at } else { &thread.created_at };
                    (at.clone(), state.pull_json(repo, thread, false))
                });
                Ok(listed(request, &state.address, items.collect(), "desc"))
            }
            ("POST", ["pulls"]) => {
                let (head, base) = (text("head"), text("base"));
                let head = head.rsplit(':').next().unwrap_or_default();
                let number = self.new_pull(&mut state, repo, login, (repo, head, &base), &text("title"), &text("body"));
                let number = number.map_err(|why| problem(422, &format!("Validation Failed: {why}")))?;
                self.tell_pull(&mut state, repo, login, number, "opened");
                let thread = state.thread(repo, number).clone();
                Ok(Response::json(201, &state.pull_json(repo, &thread, true)))
            }
            ("GET", ["pulls", number]) => {
                let thread = state.find_pull(repo, number)?;
                found(&state.pull_json(repo, &thread, true))
            }
            ("GET", ["pulls", number, "files"]) => {
                let thread = state.find_pull(repo, number)?;
                let pull = thread.pull.as_ref().ok_or_else(not_found)?;
                let changes = self.repos.changes(repo, &pull.base_sha, &pull.head_sha);
                let items = changes.into_iter().map(|change| {
                    let mut json = json!({ "filename": change.file, "status": change.status, "sha": null,
                        "additions": change.additions, "deletions": change.deletions });
                    if let Some(previous) = change.previous_file {
                        json["previous_filename"] = json!(previous);
                    }
                    (String::new(), json)
                });
                Ok(listed(request, &state.address, items.collect(), "asc"))
            }
            ("GET", ["pulls", number, kind @ ("comments" | "reviews")]) => {
                let thread = state.find_pull(repo, number)?;
                let pull = thread.pull.as_ref().ok_or_else(not_found)?;
                let json = |one: &Comment| match *kind {
                    "reviews" => state.review_json(one),
                    _ => state.comment_json(repo, thread.number, one),
                };
                let all = if *kind == "reviews" { &pull.reviews } else { &pull.lines };
                let items = all.iter().map(|one| (one.updated_at.clone(), json(one))).collect();
                Ok(listed(request, &state.address, items, "asc"))
            }
            _ => Err(not_found()),
        }
    }

    /// A request of git: whoever shows a token as a password may come in.
    fn git(&self, request: &Request) -> (String, Response) {
        let basic = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
        let shown = basic.and_then(base64).and_then(|text| String::from_utf8(text).ok());
        let token = shown.as_deref().and_then(|text| text.split_once(':')).map(|(_, token)| token.to_owned());
        let login = token.and_then(|token| self.state().token(&token));
        let Some(login) = login else {
            let refused =
                Response::new(401, "Authentication required").with("www-authenticate", "Basic realm=\"GitHub\"");
            return (String::new(), refused);
        };
        let repo = request.path.trim_start_matches('/').split(".git/").next().unwrap_or_default().to_owned();
        let writes = request.path.ends_with("git-receive-pack") || request.query.contains("git-receive-pack");
        let role = {
            let state = self.state();
            state.repos.get(&repo.to_lowercase()).map_or("none", |repo| state.role(repo, &login))
        };
        match role {
            "none" => return (login, Response::new(404, "Repository not found.")),
            "read" | "triage" if writes => return (login, Response::new(403, "Write access not granted.")),
            _ => {}
        }
        let response = self.repos.answer(request, &login);
        if request.method == "POST" && writes {
            self.after_push(&repo, &login);
        }
        (login, response)
    }
}

fn found(json: &Value) -> Answer {
    if json.is_null() { Err(not_found()) } else { Ok(Response::json(200, json)) }
}

fn check_length(body: &str) -> Result<(), Response> {
    match body.chars().count() {
        0 => Err(problem(422, "Validation Failed: body cannot be blank")),
        1..=65_536 => Ok(()),
        _ => Err(problem(422, "Validation Failed: body is too long (maximum is 65536 characters)")),
    }
}

fn react(reactions: &mut Vec<(String, String)>, login: &str, content: &str) -> Response {
    let reaction = (login.to_owned(), content.to_owned());
    let status = if reactions.contains(&reaction) { 200 } else { 201 };
    if status == 201 {
        reactions.push(reaction);
    }
    Response::json(status, &json!({ "id": 1, "content": content }))
}

impl Comment {
    pub fn rewrite(&mut self, editor: &str, body: &str, now: &str) {
        self.editor = Some(editor.to_owned());
        self.body = body.to_owned();
        self.updated_at = now.to_owned();
        self.versions.push(body.to_owned());
    }
}

impl State {
    /// The right name of a repository that somebody may see.
    fn visible(&self, name: &str, login: &str) -> Result<String, Response> {
        let repo = self.repos.get(&name.to_lowercase()).ok_or_else(not_found)?;
        if self.role(repo, login) == "none" { Err(not_found()) } else { Ok(repo.name.clone()) }
    }

    fn permission(&self, repo: &str, asking: &str, login: &str) -> Answer {
        let repo = self.repos.get(&repo.to_lowercase()).ok_or_else(not_found)?;
        if matches!(self.role(repo, asking), "read" | "triage") {
            return Err(problem(403, "Must have push access to view collaborator permission."));
        }
        if !self.users.contains_key(&login.to_lowercase()) || login.ends_with("[bot]") {
            return Err(problem(404, &format!("{login} is not a user")));
        }
        let role = self.role(repo, login);
        let permission = match role {
            "maintain" => "write",
            "triage" => "read",
            role => role,
        };
        found(&json!({ "permission": permission, "role_name": role, "user": self.user_json(login) }))
    }

    fn find_thread(&self, repo: &str, number: &str) -> Result<Thread, Response> {
        let repo = self.repos.get(&repo.to_lowercase()).ok_or_else(not_found)?;
        let number: u64 = number.parse().map_err(|_| not_found())?;
        repo.threads.get(&number).cloned().ok_or_else(not_found)
    }

    pub(super) fn find_pull(&self, repo: &str, number: &str) -> Result<Thread, Response> {
        self.find_thread(repo, number)
            .and_then(|thread| if thread.pull.is_some() { Ok(thread) } else { Err(not_found()) })
    }
}
