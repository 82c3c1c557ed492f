//! Webhooks: signed, sent in order, and remembered.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

/// Something that was told to a hook.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub id: String,
    pub event: String,
    pub payload: String,
    pub url: String,
    /// What the other side answered; 0 if it did not.
    pub status: u16,
}

/// Where something is told.
#[derive(Clone)]
pub struct Hook {
    pub id: u64,
    pub url: String,
    pub secret: String,
    pub active: bool,
    /// What is told; `*` is everything.
    pub events: Vec<String>,
    /// The App's own, not one of the repository's.
    pub of_app: bool,
}

/// The hooks of a fake.
pub struct Hooks {
    hooks: Mutex<Vec<Hook>>,
    line: Mutex<Sender<Job>>,
    sent: Arc<Mutex<Vec<Delivery>>>,
}

struct Job {
    hook: Hook,
    delivery: Delivery,
    done: Sender<u16>,
}

/// How long the other side has, as GitHub gives it.
const PATIENCE: Duration = Duration::from_secs(10);

impl Hooks {
    pub fn new() -> Self {
        let (line, jobs): (Sender<Job>, Receiver<Job>) = channel();
        let sent: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let log = sent.clone();
        std::thread::spawn(move || {
            for Job { hook, mut delivery, done } in jobs {
                delivery.status = send(&hook.url, &hook.secret, &delivery);
                let status = delivery.status;
                log.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
                // Nobody may wait for it.
                let _ = done.send(status);
            }
        });
        Self { hooks: Mutex::default(), line: Mutex::new(line), sent }
    }

    pub fn add(&self, url: &str, secret: &str) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        let id = 9000 + u64::try_from(hooks.len()).expect("few");
        let (url, secret) = (url.to_owned(), secret.to_owned());
        hooks.push(Hook { id, url, secret, active: true, events: vec!["*".to_owned()], of_app: false });
    }

    /// The hooks as they are now.
    pub fn all(&self) -> Vec<Hook> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn change(&self, change: impl FnMut(&mut Hook)) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(change);
    }

    /// A hook has another address from now on.
    pub fn rename(&self, from: &str, to: &str) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.iter_mut().filter(|hook| hook.url == from).for_each(|hook| to.clone_into(&mut hook.url));
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.iter_mut().filter(|delivery| delivery.url == from).for_each(|delivery| to.clone_into(&mut delivery.url));
    }

    pub fn clear(&self) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Tells all hooks; each answer can be waited for.
    pub fn tell(&self, event: &str, payload: &Value) -> Vec<Receiver<u16>> {
        let wanted = |hook: &Hook| hook.active && hook.events.iter().any(|known| known == event || known == "*");
        let told = self.all().into_iter().filter(wanted).map(|hook| {
            let delivery = Delivery {
                id: new_id(),
                event: event.to_owned(),
                payload: payload.to_string(),
                url: hook.url.clone(),
                status: 0,
            };
            self.queue(hook, delivery)
        });
        told.collect()
    }

    fn queue(&self, hook: Hook, delivery: Delivery) -> Receiver<u16> {
        let (done, answer) = channel();
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.send(Job { hook, delivery, done }).expect("the line is open");
        answer
    }

    pub fn sent(&self) -> Vec<Delivery> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a delivery once more, as it was.
    pub fn again(&self, id: &str) -> u16 {
        let delivery = self.sent().into_iter().find(|delivery| delivery.id == id).expect("a delivery");
        self.repeat(delivery)
    }

    /// Sends what a delivery said once more, under another name.
    pub fn replay(&self, delivery: &Delivery) -> u16 {
        self.repeat(Delivery { id: new_id(), ..delivery.clone() })
    }

    fn repeat(&self, delivery: Delivery) -> u16 {
        let hook = self.all().into_iter().find(|hook| hook.url == delivery.url).expect("its hook");
        self.queue(hook, delivery).recv().expect("an answer")
    }
}

/// What GitHub puts into `X-Hub-Signature-256`.
pub fn signature(secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key fits");
    let digest = mac.chain_update(body).finalize().into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

fn send(url: &str, secret: &str, delivery: &Delivery) -> u16 {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
    let request = ureq::Agent::new_with_config(config)
        .post(url)
        .header("content-type", "application/json")
        .header("user-agent", "GitHub-Hookshot/fake")
        .header("x-github-event", &delivery.event)
        .header("x-github-delivery", &delivery.id);
    let request = match secret {
        "" => request,
        secret => request.header("x-hub-signature-256", signature(secret, delivery.payload.as_bytes())),
    };
    request.send(delivery.payload.as_bytes()).map_or(0, |response| response.status().as_u16())
}

fn new_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::SeqCst);
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}
