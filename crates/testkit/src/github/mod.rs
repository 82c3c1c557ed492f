//! A fake GitHub for tests: its API, its webhooks and its git, on loopback, with state.
//!
//! People act in it by name: `github.comment("alice", 42, "@grove fix this")`. Their actions are sent
//! to the hooks, and so are the bot's actions through the API. Real git clones from it and pushes to
//! it with a token as its password.

mod admin;
mod caller;
mod events;
pub(crate) mod faults;
mod git;
mod graphql;
mod hooks;
pub(crate) mod http;
mod json;
mod pages;
mod people;
mod rest;
mod state;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use tempfile::TempDir;

use faults::HeldRequests;
use git::FakeRepositories;
use hooks::FakeHooks;
pub use hooks::{HookDelivery, sign_body};
pub use people::CommentView;
use state::{FakeApp, FakeGithubState, FakeRepo, FakeToken, PlannedFault};

/// A fake GitHub, seen from one of its repositories. Clones share the same server.
#[derive(Clone)]
pub struct FakeGithub {
    server: Arc<FakeServer>,
    repo: String,
}

struct FakeServer {
    inner: Arc<FakeGithubInner>,
    ending: Arc<AtomicBool>,
    dir: TempDir,
}

struct FakeGithubInner {
    state: Mutex<FakeGithubState>,
    repos: FakeRepositories,
    hooks: FakeHooks,
    held: HeldRequests,
}

/// A request to the API, or of git.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    pub path: String,
    /// The login of the request's token; empty if it had none.
    pub caller: String,
    /// 0 if the connection was dropped before anything was done.
    pub status: u16,
    pub body: String,
}

/// A failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// No failure: the next planned one hits the request after this one.
    Spared,
    /// 429.
    TooMany {
        retry_after: Option<u64>,
    },
    /// 403, because of too many writes.
    Secondary {
        retry_after: Option<u64>,
    },
    /// 403, because the hour's requests are used up.
    UsedUp {
        seconds: i64,
    },
    Status(u16),
    /// The connection breaks before anything is done.
    DropBefore,
    /// The request is carried out, and the connection breaks before the response.
    DropAfter,
    /// As `DropBefore`, but not before the test releases the request: [`FakeGithub::let_go`].
    HoldBefore,
    /// As `DropAfter`, but not before the test releases the request.
    HoldAfter,
}

/// The account of the bot.
pub const BOT_LOGIN: &str = "grove-bot";

impl FakeGithub {
    /// Starts a GitHub with one repository, which `BOT_LOGIN` may write to.
    pub fn start(repo: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("grove-github-").tempdir().expect("a temporary directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Mutex::new(FakeGithubState { address, ..FakeGithubState::default() });
        let inner = Arc::new(FakeGithubInner {
            state,
            repos: FakeRepositories::new(dir.path()),
            hooks: FakeHooks::new(),
            held: HeldRequests::default(),
        });
        let (ending, serving) = (Arc::new(AtomicBool::new(false)), inner.clone());
        http::serve_requests(listener, ending.clone(), move |request| serving.answer_request(request));
        let server = Arc::new(FakeServer { inner, ending, dir });
        let github = Self { server, repo: repo.to_owned() };
        github.add_repo(repo, None);
        github.add_user(BOT_LOGIN, "write");
        github
    }

    /// Creates another repository on the same GitHub.
    pub fn another_repo(&self, repo: &str) -> Self {
        self.add_repo(repo, None);
        let other = Self { repo: repo.to_owned(), ..self.clone() };
        other.add_user(BOT_LOGIN, "write");
        other
    }

    fn add_repo(&self, name: &str, fork_of: Option<&str>) {
        match fork_of {
            None => self.inner().repos.create_repo(name),
            Some(parent) => self.inner().repos.fork_repo(parent, name),
        }
        let mut state = self.lock_state();
        let id = state.new_id();
        let repo = FakeRepo {
            id,
            name: name.to_owned(),
            public: false,
            archived: false,
            default_branch: "main".to_owned(),
            fork_of: fork_of.map(str::to_owned),
            roles: Default::default(),
            next_number: 1,
            threads: Default::default(),
        };
        state.repos.insert(name.to_lowercase(), repo);
    }

    fn inner(&self) -> &FakeGithubInner {
        &self.server.inner
    }

    fn lock_state(&self) -> MutexGuard<'_, FakeGithubState> {
        self.inner().lock_state()
    }

    /// Returns `owner/name`.
    pub fn repo_name(&self) -> &str {
        &self.repo
    }

    /// Returns the root of the API.
    pub fn api_url(&self) -> String {
        self.lock_state().address.clone()
    }

    pub fn clone_url(&self) -> String {
        format!("{}/{}.git", self.api_url(), self.repo)
    }

    /// Returns the path of the bare repository.
    pub fn bare_path(&self) -> PathBuf {
        self.inner().repos.repo_path(&self.repo)
    }

    /// Returns a folder that is deleted with the fake.
    pub fn temp_dir(&self) -> PathBuf {
        self.server.dir.path().to_owned()
    }

    /// Makes the repository readable for all users.
    pub fn make_public(&self) {
        self.lock_state().repo_mut(&self.repo).public = true;
    }

    /// Adds a user with a role in the repository: `admin`, `maintain`, `write`, `triage`, `read`.
    pub fn add_user(&self, login: &str, role: &'static str) -> u64 {
        let mut state = self.lock_state();
        let id = state.find_or_add_user(login).id;
        state.repo_mut(&self.repo).roles.insert(login.to_lowercase(), role);
        id
    }

    /// Adds a user without a role, who may read only a public repository.
    pub fn add_outsider(&self, login: &str) -> u64 {
        self.lock_state().find_or_add_user(login).id
    }

    /// Deletes an account; its texts stay.
    pub fn delete_user(&self, login: &str) {
        self.lock_state().users.remove(&login.to_lowercase());
    }

    /// Creates a classic token of a user, which never expires.
    pub fn create_token(&self, login: &str) -> String {
        let scopes = Some("repo, workflow".to_owned());
        self.new_token("ghp_fake", FakeToken { login: login.to_owned(), until: None, scopes })
    }

    /// Makes all tokens invalid.
    pub fn revoke_tokens(&self) {
        self.lock_state().tokens.clear();
    }

    /// Installs an App in all repositories; its private key is [`FakeGithub::APP_PRIVATE_KEY`].
    pub fn install_app(&self, id: u64, slug: &str) {
        let mut state = self.lock_state();
        let installation = state.new_id();
        state.find_or_add_user(&format!("{slug}[bot]"));
        let tokens_last = SignedDuration::from_hours(1);
        let may = [("metadata", "read"), ("issues", "write"), ("pull_requests", "write"), ("contents", "write")];
        let permissions = may.map(|(name, word)| (name.to_owned(), word.to_owned())).into();
        let events = admin::BOT_EVENTS.map(str::to_owned).to_vec();
        state.app = Some(FakeApp { id, slug: slug.to_owned(), installation, tokens_last, permissions, events });
    }

    /// Limits new tokens of the App to so many seconds.
    pub fn app_tokens_last(&self, seconds: i64) {
        if let Some(app) = &mut self.lock_state().app {
            app.tokens_last = SignedDuration::from_secs(seconds);
        }
    }

    /// Returns the id of the App's installation.
    pub fn installation_id(&self) -> u64 {
        self.lock_state().app.as_ref().expect("an App").installation
    }

    pub const APP_PRIVATE_KEY: &str = include_str!("app-key.pem");

    /// Sends all events to this address from now on.
    pub fn add_webhook(&self, url: &str, secret: &str) {
        self.inner().hooks.add_hook(url, secret);
    }

    /// Changes the address of a webhook, also for redeliveries.
    pub fn move_webhook(&self, from: &str, to: &str) {
        self.inner().hooks.change_hook_url(from, to);
    }

    pub fn without_webhooks(&self) {
        self.inner().hooks.remove_all_hooks();
    }

    /// Returns the deliveries so far.
    pub fn deliveries(&self) -> Vec<HookDelivery> {
        self.inner().hooks.sent_deliveries()
    }

    /// Sends a delivery again, and returns the status.
    pub fn redeliver(&self, id: &str) -> u16 {
        self.inner().hooks.redeliver_by_id(id)
    }

    /// Sends a delivery again as if it were new, and returns the status.
    pub fn replay(&self, delivery: &HookDelivery) -> u16 {
        self.inner().hooks.replay_as_new(delivery)
    }

    /// Makes the next requests fail.
    pub fn fail_next(&self, times: usize, fault: RequestFault) {
        self.fail_next_of("", "", times, fault);
    }

    /// Removes all planned failures.
    pub fn faults_over(&self) {
        self.lock_state().faults.clear();
    }

    /// Makes the next requests with this method fail whose path contains `path`.
    pub fn fail_next_of(&self, method: &str, path: &str, times: usize, fault: RequestFault) {
        self.lock_state().faults.push(PlannedFault { method: method.to_owned(), path: path.to_owned(), times, fault });
    }

    /// Waits until a request is held; returns false after `patience`.
    pub fn holds_soon(&self, patience: Duration) -> bool {
        self.inner().held.wait_for_held(patience)
    }

    /// Releases all held requests.
    pub fn let_go(&self) {
        self.inner().held.let_go();
    }

    /// Returns the requests so far.
    pub fn received_requests(&self) -> Vec<RecordedRequest> {
        self.lock_state().requests.clone()
    }

    /// Counts the requests with this method whose path contains `path`.
    pub fn count_requests(&self, method: &str, path: &str) -> usize {
        self.lock_state().requests.iter().filter(|asked| asked.method == method && asked.path.contains(path)).count()
    }
}

impl FakeGithubInner {
    fn lock_state(&self) -> MutexGuard<'_, FakeGithubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for the next connection.
        let address = self.inner.lock_state().address.trim_start_matches("http://").to_owned();
        drop(TcpStream::connect(address));
    }
}
