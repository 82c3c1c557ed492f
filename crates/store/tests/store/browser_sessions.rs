use grove_model::Moment;
use grove_store::{NewBrowserSession, Store};
use grove_testkit::both_engines;
use sqlx::Row;

use crate::open_store;

const PAGE_HOST: &str = "grove-1.localhost";

fn seconds_from_now(seconds: i64) -> Moment {
    Moment::now().add_duration(jiff::SignedDuration::from_secs(seconds))
}

fn new_session(id: &str, host: &str) -> NewBrowserSession {
    NewBrowserSession {
        id: id.to_owned(),
        host: host.to_owned(),
        created_at: Moment::now(),
        expires_at: seconds_from_now(60),
    }
}

async fn holds_session(store: &Store, id: &str, host: &str) -> bool {
    store.has_browser_session(id, host, Moment::now()).await.unwrap()
}

both_engines! {
    async fn a_link_begins_one_session_under_its_host(store: TestStore) {
        let store = open_store(&store).await;
        store.add_login_link("link", PAGE_HOST, seconds_from_now(60)).await.unwrap();
        assert!(!store.open_browser_session("other", &new_session("a", PAGE_HOST)).await.unwrap());
        assert!(!store.open_browser_session("link", &new_session("a", "localhost")).await.unwrap());
        let first = new_session("a", PAGE_HOST);
        assert!(store.open_browser_session("link", &first).await.unwrap());
        // The same try again, whose answer was lost; then another.
        assert!(store.open_browser_session("link", &first).await.unwrap());
        assert!(!store.open_browser_session("link", &new_session("b", PAGE_HOST)).await.unwrap());
        assert!(holds_session(&store, "a", PAGE_HOST).await);
        assert!(!holds_session(&store, "a", "localhost").await && !holds_session(&store, "b", PAGE_HOST).await);
        assert_eq!(store.end_browser_sessions(Some("b")).await.unwrap(), 0);
        assert_eq!(store.end_browser_sessions(Some("a")).await.unwrap(), 1);
        assert!(!holds_session(&store, "a", PAGE_HOST).await);
    }

    async fn an_expired_session_gives_no_access_and_is_deleted(store: TestStore) {
        let url = store.url.clone();
        let store = open_store(&store).await;
        store.add_login_link("old", PAGE_HOST, Moment::now()).await.unwrap();
        assert!(!store.open_browser_session("old", &new_session("a", PAGE_HOST)).await.unwrap());
        for (link, id) in [("one", "a"), ("two", "b")] {
            store.add_login_link(link, PAGE_HOST, seconds_from_now(60)).await.unwrap();
            let expires_at = if id == "a" { Moment::now() } else { seconds_from_now(60) };
            assert!(store.open_browser_session(link, &NewBrowserSession { expires_at, ..new_session(id, PAGE_HOST) }).await.unwrap());
        }
        assert!(!holds_session(&store, "a", PAGE_HOST).await && holds_session(&store, "b", PAGE_HOST).await);
        assert!(!store.has_browser_session("b", PAGE_HOST, seconds_from_now(61)).await.unwrap());
        // The next link clears up.
        store.add_login_link("three", PAGE_HOST, seconds_from_now(60)).await.unwrap();
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        let left = "SELECT id FROM grove_browser_sessions UNION ALL SELECT id FROM grove_login_links ORDER BY 1";
        let left = sqlx::query(left).fetch_all(&pool).await.unwrap();
        let left: Vec<String> = left.iter().map(|row| row.get(0)).collect();
        assert_eq!(left, ["b", "three"]);
        pool.close().await;
        assert_eq!(store.end_browser_sessions(None).await.unwrap(), 1);
    }

    async fn one_link_lets_one_of_many_in(store: TestStore) {
        let store = open_store(&store).await;
        store.add_login_link("link", PAGE_HOST, seconds_from_now(60)).await.unwrap();
        let tries: Vec<_> = (0..8).map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.open_browser_session("link", &new_session(&number.to_string(), PAGE_HOST)).await.unwrap() })
        }).collect();
        let mut opened = 0;
        for one in tries {
            opened += u32::from(one.await.unwrap());
        }
        assert_eq!(opened, 1);
    }
}
