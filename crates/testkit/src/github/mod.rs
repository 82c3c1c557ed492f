//! One GitHub for tests: its API, its webhooks and its git, on loopback, with a memory.
//!
//! People act in it by name: `github.comment("alice", 42, "@grove fix this")`. What they do is told
//! to the hooks, and what the bot does through the API is, too. Real git clones from it and pushes to
//! it with a token as its password.

mod admin;
mod caller;
mod events;
mod faults;
mod git;
mod graphql;
mod hooks;
mod http;
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

use faults::Held;
use git::Repositories;
use hooks::Hooks;
pub use hooks::{Delivery, signature};
pub use people::Said;
use state::{App, Planned, Repo, State, Token};

/// A GitHub, seen from one of its repositories. Clones are the same one.
#[derive(Clone)]
pub struct FakeGithub {
    server: Arc<Server>,
    repo: String,
}

struct Server {
    inner: Arc<Inner>,
    ending: Arc<AtomicBool>,
    dir: TempDir,
}

struct Inner {
    state: Mutex<State>,
    repos: Repositories,
    hooks: Hooks,
    held: Held,
}

/// What was asked of the API, or of git.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// The login whose token was shown; empty if none was.
    pub caller: String,
    /// 0 if the connection was dropped before anything was done.
    pub status: u16,
    pub body: String,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: another one is to hit the request behind this one.
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
    /// It is done, and the connection breaks before that is said.
    DropAfter,
    /// As `DropBefore`, but not before the test lets go: [`FakeGithub::let_go`].
    HoldBefore,
    /// As `DropAfter`, but not before the test lets go.
    HoldAfter,
}

/// The account that the bot speaks with.
pub const BOT: &str = "grove-bot";

impl FakeGithub {
    /// A GitHub with one repository, which `BOT` may write to.
    pub fn start(repo: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("grove-github-").tempdir().expect("a temporary directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Mutex::new(State { address, ..State::default() });
        let inner =
            Arc::new(Inner { state, repos: Repositories::new(dir.path()), hooks: Hooks::new(), held: Held::default() });
        let (ending, serving) = (Arc::new(AtomicBool::new(false)), inner.clone());
        http::serve(listener, ending.clone(), move |request| serving.answer(request));
        let server = Arc::new(Server { inner, ending, dir });
        let github = Self { server, repo: repo.to_owned() };
        github.add(repo, None);
        github.user(BOT, "write");
        github
    }

    /// Another repository of the same GitHub.
    pub fn another(&self, repo: &str) -> Self {
        self.add(repo, None);
        let other = Self { repo: repo.to_owned(), ..self.clone() };
        other.user(BOT, "write");
        other
    }

    fn add(&self, name: &str, fork_of: Option<&str>) {
        match fork_of {
            None => self.inner().repos.create(name),
            Some(parent) => self.inner().repos.fork(parent, name),
        }
        let mut state = self.state();
        let id = state.new_id();
        let repo = Repo {
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

    fn inner(&self) -> &Inner {
        &self.server.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner().state()
    }

    /// `owner/name`.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The root of the API.
    pub fn api_url(&self) -> String {
        self.state().address.clone()
    }

    pub fn clone_url(&self) -> String {
        format!("{}/{}.git", self.api_url(), self.repo)
    }

    /// The bare repository itself.
    pub fn bare(&self) -> PathBuf {
        self.inner().repos.path(&self.repo)
    }

    /// A folder that goes with the fake.
    pub fn dir(&self) -> PathBuf {
        self.server.dir.path().to_owned()
    }

    /// Everybody may read.
    pub fn public(&self) {
        self.state().repo(&self.repo).public = true;
    }

    /// Somebody with a role here: `admin`, `maintain`, `write`, `triage`, `read`.
    pub fn user(&self, login: &str, role: &'static str) -> u64 {
        let mut state = self.state();
        let id = state.user(login).id;
        state.repo(&self.repo).roles.insert(login.to_lowercase(), role);
        id
    }

    /// Somebody without any, who may read if everybody may.
    pub fn outsider(&self, login: &str) -> u64 {
        self.state().user(login).id
    }

    /// The account goes; what it wrote stays.
    pub fn delete_user(&self, login: &str) {
        self.state().users.remove(&login.to_lowercase());
    }

    /// A classic token of somebody's, good for ever.
    pub fn token(&self, login: &str) -> String {
        let scopes = Some("repo, workflow".to_owned());
        self.new_token("ghp_fake", Token { login: login.to_owned(), until: None, scopes })
    }

    /// No token is good any more.
    pub fn revoke_tokens(&self) {
        self.state().tokens.clear();
    }

    /// An App, installed in all repositories; its private key is [`FakeGithub::APP_KEY`].
    pub fn app(&self, id: u64, slug: &str) {
        let mut state = self.state();
        let installation = state.new_id();
        state.user(&format!("{slug}[bot]"));
        let tokens_last = SignedDuration::from_hours(1);
        let may = [("metadata", "read"), ("issues", "write"), ("pull_requests", "write"), ("contents", "write")];
        let permissions = may.map(|(name, word)| (name.to_owned(), word.to_owned())).into();
        let events = admin::EVENTS.map(str::to_owned).to_vec();
        state.app = Some(App { id, slug: slug.to_owned(), installation, tokens_last, permissions, events });
    }

    /// Tokens of the App from now on are good for so many seconds.
    pub fn app_tokens_last(&self, seconds: i64) {
        if let Some(app) = &mut self.state().app {
            app.tokens_last = SignedDuration::from_secs(seconds);
        }
    }

    /// The id of the App's installation.
    pub fn installation(&self) -> u64 {
        self.state().app.as_ref().expect("an App").installation
    }

    pub const APP_KEY: &str = include_str!("app-key.pem");

    /// Tells everything to this address from now on.
    pub fn webhook(&self, url: &str, secret: &str) {
        self.inner().hooks.add(url, secret);
    }

    /// Tells it to this address instead, also what is told again.
    pub fn move_webhook(&self, from: &str, to: &str) {
        self.inner().hooks.rename(from, to);
    }

    pub fn without_webhooks(&self) {
        self.inner().hooks.clear();
    }

    /// What was told so far.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.inner().hooks.sent()
    }

    /// Tells something again, and what was answered.
    pub fn redeliver(&self, id: &str) -> u16 {
        self.inner().hooks.again(id)
    }

    /// Tells something again as if it were new, and what was answered.
    pub fn replay(&self, delivery: &Delivery) -> u16 {
        self.inner().hooks.replay(delivery)
    }

    /// The next requests fail.
    pub fn fail_next(&self, times: usize, fault: Fault) {
        self.fail_next_of("", "", times, fault);
    }

    /// Nothing fails any more.
    pub fn faults_over(&self) {
        self.state().faults.clear();
    }

    /// The next requests with this method whose path contains this fail.
    pub fn fail_next_of(&self, method: &str, path: &str, times: usize, fault: Fault) {
        self.state().faults.push(Planned { method: method.to_owned(), path: path.to_owned(), times, fault });
    }

    /// Waits until a request is held; whether one is.
    pub fn holds_soon(&self, patience: Duration) -> bool {
        self.inner().held.comes(patience)
    }

    /// Lets all go that is held.
    pub fn let_go(&self) {
        self.inner().held.let_go();
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Asked> {
        self.state().requests.clone()
    }

    /// How often something was asked.
    pub fn asked(&self, method: &str, path: &str) -> usize {
        self.state().requests.iter().filter(|asked| asked.method == method && asked.path.contains(path)).count()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes whoever waits for the next connection.
        let address = self.inner.state().address.trim_start_matches("http://").to_owned();
        drop(TcpStream::connect(address));
    }
}
