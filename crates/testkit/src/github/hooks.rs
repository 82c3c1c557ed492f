//! Webhooks: signed, sent in order, and recorded.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

/// An event that was sent to a hook.
#[derive(Clone, Debug)]
pub struct HookDelivery {
    pub id: String,
    pub event: String,
    pub payload: String,
    pub url: String,
    /// The status that the receiver answered; 0 if it did not answer.
    pub status: u16,
}

/// An address that events are sent to.
#[derive(Clone)]
pub struct FakeHook {
    pub id: u64,
    pub url: String,
    pub secret: String,
    pub active: bool,
    /// The events that are sent; `*` is all of them.
    pub events: Vec<String>,
    /// The hook belongs to the App, not to a repository.
    pub of_app: bool,
}

/// The hooks of a fake.
pub struct FakeHooks {
    hooks: Mutex<Vec<FakeHook>>,
    line: Mutex<Sender<DeliveryJob>>,
    sent: Arc<Mutex<Vec<HookDelivery>>>,
}

struct DeliveryJob {
    hook: FakeHook,
    delivery: HookDelivery,
    done: Sender<u16>,
}

/// The time in which the receiver must answer, the same as GitHub's.
const HOOK_TIMEOUT: Duration = Duration::from_secs(10);

impl FakeHooks {
    pub fn new() -> Self {
        let (line, jobs): (Sender<DeliveryJob>, Receiver<DeliveryJob>) = channel();
        let sent: Arc<Mutex<Vec<HookDelivery>>> = Arc::default();
        let log = sent.clone();
        std::thread::spawn(move || {
            for DeliveryJob { hook, mut delivery, done } in jobs {
                delivery.status = send_delivery(&hook.url, &hook.secret, &delivery);
                let status = delivery.status;
                log.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
                // The test may not wait for the status.
                let _ = done.send(status);
            }
        });
        Self { hooks: Mutex::default(), line: Mutex::new(line), sent }
    }

    pub fn add_hook(&self, url: &str, secret: &str) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        let id = 9000 + u64::try_from(hooks.len()).expect("few");
        let (url, secret) = (url.to_owned(), secret.to_owned());
        hooks.push(FakeHook { id, url, secret, active: true, events: vec!["*".to_owned()], of_app: false });
    }

    /// Returns the current hooks.
    pub fn list_hooks(&self) -> Vec<FakeHook> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn update_hooks(&self, change: impl FnMut(&mut FakeHook)) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(change);
    }

    /// Changes the address of a hook, also for the redelivery of earlier events.
    pub fn change_hook_url(&self, from: &str, to: &str) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.iter_mut().filter(|hook| hook.url == from).for_each(|hook| to.clone_into(&mut hook.url));
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.iter_mut().filter(|delivery| delivery.url == from).for_each(|delivery| to.clone_into(&mut delivery.url));
    }

    pub fn remove_all_hooks(&self) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends an event to all hooks that want it; each status can be waited for.
    pub fn send_event(&self, event: &str, payload: &Value) -> Vec<Receiver<u16>> {
        let wanted = |hook: &FakeHook| hook.active && hook.events.iter().any(|known| known == event || known == "*");
        let told = self.list_hooks().into_iter().filter(wanted).map(|hook| {
            let delivery = HookDelivery {
                id: new_id(),
                event: event.to_owned(),
                payload: payload.to_string(),
                url: hook.url.clone(),
                status: 0,
            };
            self.queue_delivery(hook, delivery)
        });
        told.collect()
    }

    fn queue_delivery(&self, hook: FakeHook, delivery: HookDelivery) -> Receiver<u16> {
        let (done, answer) = channel();
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.send(DeliveryJob { hook, delivery, done }).expect("the line is open");
        answer
    }

    pub fn sent_deliveries(&self) -> Vec<HookDelivery> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a delivery again, unchanged, and returns the status.
    pub fn redeliver_by_id(&self, id: &str) -> u16 {
        let delivery = self.sent_deliveries().into_iter().find(|delivery| delivery.id == id).expect("a delivery");
        self.repeat_delivery(delivery)
    }

    /// Sends the payload of a delivery again, under a new id, and returns the status.
    pub fn replay_as_new(&self, delivery: &HookDelivery) -> u16 {
        self.repeat_delivery(HookDelivery { id: new_id(), ..delivery.clone() })
    }

    fn repeat_delivery(&self, delivery: HookDelivery) -> u16 {
        let hook = self.list_hooks().into_iter().find(|hook| hook.url == delivery.url).expect("its hook");
        self.queue_delivery(hook, delivery).recv().expect("an answer")
    }
}

/// Returns the value of GitHub's `X-Hub-Signature-256` header.
pub fn sign_body(secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key fits");
    let digest = mac.chain_update(body).finalize().into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

fn send_delivery(url: &str, secret: &str, delivery: &HookDelivery) -> u16 {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(HOOK_TIMEOUT)).build();
    let request = ureq::Agent::new_with_config(config)
        .post(url)
        .header("content-type", "application/json")
        .header("user-agent", "GitHub-Hookshot/fake")
        .header("x-github-event", &delivery.event)
        .header("x-github-delivery", &delivery.id);
    let request = match secret {
        "" => request,
        secret => request.header("x-hub-signature-256", sign_body(secret, delivery.payload.as_bytes())),
    };
    request.send(delivery.payload.as_bytes()).map_or(0, |response| response.status().as_u16())
}

fn new_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT_DELIVERY_NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NEXT_DELIVERY_NUMBER.fetch_add(1, Ordering::SeqCst);
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}
