//! Where webhooks come in: who signed it is looked at first, then whether it can be read; what is kept
//! is kept as it came, but for secrets.

use grove_store::{NewEvent, StoreError};
use serde_json::Value;

use crate::github::adapter::Adapter;
use crate::github::inbound::classify::GITHUB;
use crate::github::inbound::event::{Delivered, Malformed, read};
use crate::github::inbound::payload::{self, without_secrets};
use crate::github::inbound::signature::Signature;

/// A delivery, as it comes in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knock<'a> {
    /// `X-Hub-Signature-256`
    pub signature: Option<&'a [u8]>,
    /// `X-GitHub-Event`
    pub event: Option<&'a str>,
    /// `X-GitHub-Delivery`
    pub delivery: Option<&'a str>,
    pub content_type: &'a str,
    pub body: &'a [u8],
}

/// Why a delivery is not taken. Nothing of it is kept.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("the delivery is not signed with the webhook's secret")]
    BadSignature,
    #[error("the delivery has no `{0}`")]
    Missing(&'static str),
    #[error("the delivery's form has no payload")]
    NoPayload,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The longest name of a delivery; GitHub's are of 36 characters.
const LONGEST_NAME: usize = 200;

/// A delivery that is signed with the webhook's secret.
#[derive(Clone, Copy, Debug)]
pub struct SignedDelivery<'a>(Knock<'a>);

impl Adapter {
    /// Checks who signed a delivery.
    pub fn verify<'a>(&self, knock: Knock<'a>) -> Result<SignedDelivery<'a>, Refused> {
        let signature = knock.signature.and_then(Signature::parse).ok_or(Refused::BadSignature)?;
        if !self.secrets.made(signature, knock.body) {
            return Err(Refused::BadSignature);
        }
        Ok(SignedDelivery(knock))
    }

    /// Takes a delivery: it is in the store when this returns, unless there is nothing to do with it.
    /// Whether it is new.
    pub async fn take(&self, SignedDelivery(knock): SignedDelivery<'_>) -> Result<bool, Refused> {
        let named = |value: Option<&str>, name| {
            let value = value.filter(|value| !value.is_empty() && value.len() <= LONGEST_NAME);
            value.map(str::to_owned).ok_or(Refused::Missing(name))
        };
        let kind = named(knock.event, "X-GitHub-Event")?;
        let delivery = named(knock.delivery, "X-GitHub-Delivery")?;
        let payload = payload::of(knock.content_type, knock.body).ok_or(Refused::NoPayload)?;
        match read(&kind, &payload)? {
            Delivered::Ping | Delivered::Ignored(_) => return Ok(false),
            Delivered::Happened(_) => {}
        }
        // The signature is that of the bytes as they came; what is kept has no secrets.
        let mut payload: Value = serde_json::from_slice(&payload).map_err(Malformed::from)?;
        without_secrets(&self.talks.redactor, &mut payload);
        let body = payload.to_string();
        Ok(self.letterbox.keep(NewEvent { platform: GITHUB.to_owned(), delivery, kind, body }).await?)
    }
}
