//! Several repositories: a message whose repository is not clear is kept, and the choice runs it.

use std::path::Path;

use grove_testkit::{ProgramOutput, Sandbox, TestEngine, TestRepo, TestServer, TestStore, both_engines};
use serde_json::{Value, json};

use super::page::SignedInBrowser;
use super::start_test_server;
use crate::sandbox_on;

const QUESTION: &str = "Which repository is this about? Answer with its name, or use /codebase NAME: app, site.";
const SHOW_REPOSITORY: &str = "git rev-parse --path-format=absolute --git-common-dir";

/// Two registered repositories, `app` and `site`; the sandbox is that of `app`.
struct TwoRepositories {
    grove: Sandbox,
    site: TestRepo,
}

impl TwoRepositories {
    fn register(store: TestStore) -> Self {
        let (grove, site) = (sandbox_on(store, TestRepo::new()), TestRepo::new());
        for (name, repo) in [("app", &grove.repo), ("site", &site)] {
            grove.grove(["codebase", "add", repo.path().to_str().unwrap(), "--name", name]).assert_success();
        }
        Self { grove, site }
    }

    fn site_git(&self) -> String {
        self.site.path().canonicalize().unwrap().join(".git").display().to_string()
    }
}

both_engines! {
    fn a_message_is_kept_until_its_repository_is_chosen(store: TestStore) {
        let two = TwoRepositories::register(store);
        let mut server = TestServer::start(&two.grove);
        assert_eq!(server.ask("c", SHOW_REPOSITORY), [QUESTION]);
        assert!(!two.grove.grove_home().join("scratch").exists(), "no folder of its own");
        // It survives a restart, and `site` is not what the agent gets.
        server.kill();
        let server = TestServer::start(&two.grove);
        let said = server.ask("c", "site");
        assert_eq!(said[0], "This conversation is about `site` from now on.");
        assert!(said[1].starts_with("Working in isolated branch `"), "{said:?}");
        assert_eq!(said[2..], [two.site_git()]);
        // It ran once, and the conversation goes on there.
        assert_eq!(server.ask("c", SHOW_REPOSITORY), [two.site_git()]);
        assert_eq!(server.ask("c", "/codebase site"), ["This conversation is about `site` from now on."]);
        assert_eq!(server.ask("c", "printf %s site"), ["site"]);
    }

    fn a_command_chooses_too_and_everything_that_was_said_runs(store: TestStore) {
        let two = TwoRepositories::register(store);
        let server = TestServer::start(&two.grove);
        assert_eq!(server.ask("c", "echo first"), [QUESTION]);
        assert_eq!(server.ask("c", SHOW_REPOSITORY), [QUESTION]);
        let said = server.ask("c", "/codebase site");
        assert_eq!(said[0], "This conversation is about `site` from now on.");
        assert_eq!(said[2..], [format!("first\n{}", two.site_git())]);
        // With nothing kept, a name alone chooses as well.
        assert_eq!(server.ask("d", "site"), ["This conversation is about `site` from now on."]);
        assert_eq!(server.ask("d", SHOW_REPOSITORY)[1..], [two.site_git()]);
    }

    fn a_choice_that_was_stopped_can_be_run_again(store: TestStore) {
        let two = TwoRepositories::register(store);
        let server = TestServer::start(&two.grove);
        let gate = two.grove.repo.temp_dir().join("gate");
        server.ask("c", &format!("if [ -e {gate} ]; then echo again; else touch {gate}; sleep 60; fi", gate = gate.display()));
        server.say("c", "site");
        grove_testkit::wait_for(|| gate.exists());
        server.say("c", "/stop");
        let said = server.wait_until_settled("c");
        assert!(said.iter().any(|text| text.contains("Stopped. /retry runs it again.")), "{said:?}");
        assert_eq!(server.ask("c", "/retry").last().map(String::as_str), Some("again"));
    }

    fn the_only_repository_is_used(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        assert_eq!(server.ask("c", "echo here").last().map(String::as_str), Some("here"));
    }
}

#[test]
fn the_question_is_data_for_scripts_and_buttons_on_the_page() {
    let two = TwoRepositories::register(TestStore::new(TestEngine::Sqlite));
    let server = TestServer::start(&two.grove);
    let browser = SignedInBrowser::open_page(&server);
    let post = |body: Value| {
        assert_eq!(server.call_api("POST", "/api/conversations/web-1/messages", Some(&body)).status, 202);
        server.wait_until_settled("web-1");
        let lines = server.call_api("GET", "/api/conversations/web-1/messages", None).json();
        lines["messages"].as_array().unwrap().clone()
    };
    let lines = post(json!({ "message": SHOW_REPOSITORY }));
    assert_eq!(lines[0]["status"], "asked");
    let options = json!([{ "label": "app", "text": "app" }, { "label": "site", "text": "site" }]);
    let choice = json!({ "question": "Which repository is this about?", "options": options });
    assert_eq!((&lines[1]["choice"], &lines[1]["message"]), (&choice, &json!(QUESTION)));
    let log = browser.get(&server, "/page/chat?c=web-1").text;
    assert!(log.contains(r#"data-option="site">site</button>"#) && log.contains(r#"data-asks="true""#), "{log}");
    let page = browser.get(&server, "/?c=web-1").text;
    assert!(page.contains(r#"<label id="picker" class="about" hidden>"#), "the buttons are enough: {page}");

    let lines = post(json!({ "message": "site" }));
    assert_eq!(lines[0]["status"], "done");
    assert_eq!(lines.last().unwrap()["message"], two.site_git());
    let log = browser.get(&server, "/page/chat?c=web-1").text;
    assert!(!log.contains("data-option") && log.contains(r#"data-codebase="site""#), "{log}");
}

#[test]
fn grove_up_opens_the_repository_that_it_is_run_in() {
    let two = TwoRepositories::register(TestStore::new(TestEngine::Sqlite));
    let server = TestServer::start(&two.grove);
    let said = |conversation: &str, codebase: &str| {
        let body = json!({ "message": "true", "codebase": codebase });
        let path = format!("/api/conversations/{conversation}/messages");
        assert_eq!(server.call_api("POST", &path, Some(&body)).status, 202);
        server.wait_until_settled(conversation);
    };
    said("web-app", "app");
    let shown_by = |repository: &Path| {
        let address = server.address.strip_prefix("http://").unwrap();
        let mut command = two.grove.grove_command(["up", "--no-open", "--listen", address]);
        let up = ProgramOutput::from(command.current_dir(repository)).assert_success();
        let link = up.stdout.lines().find(|line| line.contains("/login/")).expect("a link").trim().to_owned();
        let (_, query) = link.split_once('?').expect("a query");
        assert!(up.stdout.contains(&format!("/?{query} from then on")), "{up:?}");
        let browser = SignedInBrowser::follow_link(&server, &link);
        assert!(browser.landing.contains(&format!(r#"content="0; url=/?{query}""#)), "{}", browser.landing);
        (browser.get(&server, &format!("/?{query}")).text, query.to_owned())
    };
    // The first repository: its conversation. The second has none yet: a new one, about it.
    let (page, query) = shown_by(two.grove.repo.path());
    assert!(query == "codebase=app" && page.contains(r#"<body data-conversation="web-app">"#), "{query} {page}");
    assert!(page.contains(r#"<span id="about" class="about">in app</span>"#), "{page}");
    let (page, query) = shown_by(two.site.path());
    assert!(query == "codebase=site" && !page.contains(r#"data-conversation="web-app""#), "{query} {page}");
    assert!(page.contains(r#"<option value="site" selected>site</option>"#), "{page}");
    assert!(page.contains(r#"<label id="picker" class="about">Repository "#), "{page}");
    // Later its last conversation, although the other one was used since; a new one is about the same repository.
    said("web-site", "site");
    said("web-app", "app");
    let (page, _) = shown_by(two.site.path());
    assert!(page.contains(r#"<body data-conversation="web-site">"#), "{page}");
    assert!(page.contains("&amp;codebase=site\">New conversation</a>"), "{page}");
}

#[test]
fn the_terminal_outside_of_repositories_is_asked_too() {
    let two = TwoRepositories::register(TestStore::new(TestEngine::Sqlite));
    let chat = |message: &str| {
        let mut command = two.grove.grove_command(["chat", "-c", "cli-1", message]);
        command.env("GROVE_SERVER_LISTEN", "127.0.0.1:0").current_dir(two.grove.repo.temp_dir());
        ProgramOutput::from(&mut command)
    };
    assert_eq!(chat(SHOW_REPOSITORY).assert_exit_code(1).stdout, format!("{QUESTION}\n"));
    assert_eq!(chat("site").assert_success().stdout, format!("{}\n", two.site_git()));
}
