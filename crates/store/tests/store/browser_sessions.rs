use grove_model::Moment;
use grove_store::{NewBrowserSession, Store};
use grove_testkit::both_engines;
use sqlx::Row;

use crate::open;

const HOST: &str = "grove-1.localhost";

fn later(seconds: i64) -> Moment {
    Moment::now().plus(jiff::SignedDuration::from_secs(seconds))
}

fn session(id: &str, host: &str) -> NewBrowserSession {
    NewBrowserSession { id: id.to_owned(), host: host.to_owned(), created_at: Moment::now(), expires_at: later(60) }
}

async fn holds(store: &Store, id: &str, host: &str) -> bool {
    store.has_browser_session(id, host, Moment::now()).await.unwrap()
}

both_engines! {
    async fn a_link_begins_one_session_under_its_host(store: TestStore) {
        let store = open(&store).await;
        store.add_login_link("link", HOST, later(60)).await.unwrap();
        assert!(!store.open_browser_session("other", &session("a", HOST)).await.unwrap());
        assert!(!store.open_browser_session("link", &session("a", "localhost")).await.unwrap());
        let first = session("a", HOST);
        assert!(store.open_browser_session("link", &first).await.unwrap());
        // The same try again, whose answer was lost; then another.
        assert!(store.open_browser_session("link", &first).await.unwrap());
        assert!(!store.open_browser_session("link", &session("b", HOST)).await.unwrap());
        assert!(holds(&store, "a", HOST).await);
        assert!(!holds(&store, "a", "localhost").await && !holds(&store, "b", HOST).await);
        assert_eq!(store.end_browser_sessions(Some("b")).await.unwrap(), 0);
        assert_eq!(store.end_browser_sessions(Some("a")).await.unwrap(), 1);
        assert!(!holds(&store, "a", HOST).await);
    }

    async fn what_is_too_old_lets_nobody_in_and_is_deleted(store: TestStore) {
        let url = store.url.clone();
        let store = open(&store).await;
        store.add_login_link("old", HOST, Moment::now()).await.unwrap();
        assert!(!store.open_browser_session("old", &session("a", HOST)).await.unwrap());
        for (link, id) in [("one", "a"), ("two", "b")] {
            store.add_login_link(link, HOST, later(60)).await.unwrap();
            let expires_at = if id == "a" { Moment::now() } else { later(60) };
            assert!(store.open_browser_session(link, &NewBrowserSession { expires_at, ..session(id, HOST) }).await.unwrap());
        }
        assert!(!holds(&store, "a", HOST).await && holds(&store, "b", HOST).await);
        assert!(!store.has_browser_session("b", HOST, later(61)).await.unwrap());
        // The next link clears up.
        store.add_login_link("three", HOST, later(60)).await.unwrap();
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        let left = "SELECT id FROM grove_browser_sessions UNION ALL SELECT id FROM grove_login_links ORDER BY 1";
        let left = sqlx::query(left).fetch_all(&pool).await.unwrap();
        let left: Vec<String> = left.iter().map(|row| row.get(0)).collect();
        assert_eq!(left, ["b", "three"]);
        pool.close().await;
        assert_eq!(store.end_browser_sessions(None).await.unwrap(), 1);
    }

    async fn one_link_lets_one_of_many_in(store: TestStore) {
        let store = open(&store).await;
        store.add_login_link("link", HOST, later(60)).await.unwrap();
        let tries: Vec<_> = (0..8).map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.open_browser_session("link", &session(&number.to_string(), HOST)).await.unwrap() })
        }).collect();
        let mut opened = 0;
        for one in tries {
            opened += u32::from(one.await.unwrap());
        }
        assert_eq!(opened, 1);
    }
}
