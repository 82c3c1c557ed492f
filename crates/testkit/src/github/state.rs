//! The state of the fake.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::RequestFault;

#[derive(Default)]
pub struct FakeGithubState {
    pub address: String,
    pub clock: Option<Timestamp>,
    pub last_id: u64,
    pub users: BTreeMap<String, FakeUser>,
    /// By the token itself.
    pub tokens: BTreeMap<String, FakeToken>,
    pub app: Option<FakeApp>,
    /// By name in lower case.
    pub repos: BTreeMap<String, FakeRepo>,
    /// The new names of renamed repositories, by the old name.
    pub moved: BTreeMap<String, String>,
    /// How many requests are left in this hour.
    pub requests_left: Option<u64>,
    pub faults: Vec<PlannedFault>,
    pub requests: Vec<super::RecordedRequest>,
}

#[derive(Clone, Debug)]
pub struct FakeUser {
    pub id: u64,
    pub login: String,
    pub kind: &'static str,
}

#[derive(Clone, Debug)]
pub struct FakeToken {
    pub login: String,
    pub until: Option<Timestamp>,
    /// The scopes of a classic token; other tokens have none.
    pub scopes: Option<String>,
}

#[derive(Clone, Debug)]
pub struct FakeApp {
    pub id: u64,
    pub slug: String,
    pub installation: u64,
    /// How long its tokens are valid.
    pub tokens_last: SignedDuration,
    /// Its permissions: `issues` and `write`.
    pub permissions: BTreeMap<String, String>,
    /// The events that it subscribes to.
    pub events: Vec<String>,
}

/// A failure of the next requests that match.
pub struct PlannedFault {
    pub method: String,
    pub path: String,
    pub times: usize,
    pub fault: RequestFault,
}

#[derive(Debug)]
pub struct FakeRepo {
    pub id: u64,
    pub name: String,
    pub public: bool,
    pub archived: bool,
    pub default_branch: String,
    pub fork_of: Option<String>,
    pub roles: BTreeMap<String, &'static str>,
    pub next_number: u64,
    pub threads: BTreeMap<u64, FakeThread>,
}

/// An issue or a pull request.
#[derive(Clone, Debug)]
pub struct FakeThread {
    pub number: u64,
    pub id: u64,
    pub title: String,
    pub body: String,
    pub author: String,
    /// The account that changed the text last.
    pub editor: Option<String>,
    /// The account that changed the title last.
    pub renamed_by: Option<String>,
    pub labels: Vec<String>,
    pub open: bool,
    pub created_at: String,
    pub updated_at: String,
    pub closed_at: Option<String>,
    pub comments: Vec<FakeComment>,
    pub reactions: Vec<(String, String)>,
    pub pull: Option<FakePull>,
}

#[derive(Clone, Debug)]
pub struct FakePull {
    pub head_repo: String,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub base_sha: String,
    pub merged_at: Option<String>,
    pub merge_sha: Option<String>,
    pub reviews: Vec<FakeComment>,
    pub lines: Vec<FakeComment>,
    /// The issues that it closes, according to GitHub: repository and number.
    pub closes: Vec<(String, u64)>,
}

#[derive(Clone, Debug)]
pub struct FakeComment {
    pub id: u64,
    pub author: String,
    /// The account that changed it last.
    pub editor: Option<String>,
    pub body: String,
    pub created_at: String,
    pub updated_at: String,
    pub reactions: Vec<(String, String)>,
    /// All versions of its text, the oldest first.
    pub versions: Vec<String>,
    /// File, first and last line of a comment on lines.
    pub lines: Option<(String, u64, u64)>,
}

impl FakeGithubState {
    /// Returns a time later than all before: no two events happen in the same second.
    pub fn next_timestamp(&mut self) -> String {
        let second = SignedDuration::from_secs(1);
        let now = Timestamp::now();
        let next = self.clock.map_or(now, |last| now.max(last + second));
        self.clock = Some(next);
        next.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        1000 + self.last_id
    }

    pub fn find_or_add_user(&mut self, login: &str) -> FakeUser {
        if let Some(known) = self.users.get(&login.to_lowercase()) {
            return known.clone();
        }
        let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
        let user = FakeUser { id: self.new_id(), login: login.to_owned(), kind };
        self.users.insert(login.to_lowercase(), user.clone());
        user
    }

    pub fn repo_mut(&mut self, name: &str) -> &mut FakeRepo {
        self.repos.get_mut(&name.to_lowercase()).unwrap_or_else(|| panic!("no repository {name}"))
    }

    pub fn thread_mut(&mut self, repo: &str, number: u64) -> &mut FakeThread {
        self.repo_mut(repo).threads.get_mut(&number).unwrap_or_else(|| panic!("no {repo}#{number}"))
    }

    pub fn new_thread(&mut self, repo: &str, author: &str, title: &str, body: &str) -> u64 {
        self.find_or_add_user(author);
        let (id, now) = (self.new_id(), self.next_timestamp());
        let repo = self.repo_mut(repo);
        let number = repo.next_number;
        repo.next_number += 1;
        let thread = FakeThread {
            number,
            id,
            title: title.to_owned(),
            body: body.to_owned(),
            author: author.to_owned(),
            editor: None,
            renamed_by: None,
            labels: Vec::new(),
            open: true,
            created_at: now.clone(),
            updated_at: now,
            closed_at: None,
            comments: Vec::new(),
            reactions: Vec::new(),
            pull: None,
        };
        repo.threads.insert(number, thread);
        number
    }

    pub fn new_comment(&mut self, author: &str, body: &str) -> FakeComment {
        self.find_or_add_user(author);
        let now = self.next_timestamp();
        FakeComment {
            id: self.new_id(),
            author: author.to_owned(),
            editor: None,
            body: body.to_owned(),
            created_at: now.clone(),
            updated_at: now,
            reactions: Vec::new(),
            versions: vec![body.to_owned()],
            lines: None,
        }
    }

    /// Returns the comment with an id, and the number of its thread.
    pub fn comment_mut(&mut self, repo: &str, id: u64) -> Option<(u64, &mut FakeComment)> {
        self.repo_mut(repo).threads.values_mut().find_map(|thread| {
            let number = thread.number;
            let of_pull = thread.pull.iter_mut().flat_map(|pull| pull.lines.iter_mut().chain(&mut pull.reviews));
            let found = thread.comments.iter_mut().chain(of_pull).find(|comment| comment.id == id)?;
            Some((number, found))
        })
    }

    /// Returns `admin`, `maintain`, `write`, `triage`, `read`, or `none`.
    pub fn user_role(&self, repo: &FakeRepo, login: &str) -> &'static str {
        let anybody = if repo.public { "read" } else { "none" };
        let is_app = self.app.as_ref().is_some_and(|app| format!("{}[bot]", app.slug) == login);
        if is_app { "write" } else { repo.roles.get(&login.to_lowercase()).copied().unwrap_or(anybody) }
    }
}
