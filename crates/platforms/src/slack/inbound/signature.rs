//! Verifies that a request comes from Slack: HMAC SHA-256 over version, timestamp and raw body, compared in
//! constant time, at most five minutes old.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The largest difference between the time of a request and our own, in seconds.
const MAX_AGE_SECONDS: u64 = 300;
/// The longest timestamp, far beyond all times.
const MAX_TIMESTAMP_LENGTH: usize = 20;

/// The secret that Slack signs requests with.
#[derive(Clone)]
pub struct SigningSecret(Hmac<Sha256>);

impl SigningSecret {
    /// Creates the secret; `None` if it is empty, since every sender could guess that.
    pub fn new(secret: &str) -> Option<Self> {
        let secret = Some(secret.trim()).filter(|secret| !secret.is_empty())?;
        Hmac::new_from_slice(secret.as_bytes()).ok().map(Self)
    }

    /// Tells whether a request is signed with the secret and not older than five minutes. `timestamp` and
    /// `signature` are the headers, `now` is in seconds since 1970.
    pub fn verifies(&self, timestamp: &str, signature: &str, body: &[u8], now: i64) -> bool {
        let is_number = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let time = timestamp.parse::<i64>().ok().filter(|_| is_number && timestamp.len() <= MAX_TIMESTAMP_LENGTH);
        let Some(digest) = parse_signature(signature) else { return false };
        let is_recent = time.is_some_and(|time| time.abs_diff(now) <= MAX_AGE_SECONDS);
        let mac = self.0.clone().chain_update("v0:").chain_update(timestamp).chain_update(":").chain_update(body);
        mac.verify_slice(&digest).is_ok() && is_recent
    }
}

/// Parses `v0=` and 64 hexadecimal digits.
fn parse_signature(signature: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = signature.as_bytes().strip_prefix(b"v0=")?.try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(0)? << 4 | digit(1)?;
    }
    Some(bytes)
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The example of Slack's own documentation.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const TIME: i64 = 1_531_420_618;

    fn is_accepted(timestamp: &str, signature: &str, body: &str, now: i64) -> bool {
        SigningSecret::new(SECRET).unwrap().verifies(timestamp, signature, body.as_bytes(), now)
    }

    #[test]
    fn slacks_own_example_is_accepted_for_five_minutes() {
        let time = TIME.to_string();
        for (now, accepted) in [(0, true), (299, true), (300, true), (301, false), (-299, true), (-301, false)] {
            assert_eq!(is_accepted(&time, SIGNATURE, BODY, TIME + now), accepted, "{now}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let time = TIME.to_string();
        let digest = &SIGNATURE["v0=".len()..];
        for signature in
            ["", digest, &SIGNATURE[..66], &format!("v1={digest}"), &format!("{SIGNATURE}0"), &format!("v0= {digest}")]
        {
            assert!(!is_accepted(&time, signature, BODY, TIME), "{signature}");
        }
        for timestamp in
            ["", "x", &format!("+{time}"), &format!("0{time}"), &format!(" {time}"), "99999999999999999999999"]
        {
            assert!(!is_accepted(timestamp, SIGNATURE, BODY, TIME), "{timestamp}");
        }
        assert!(!is_accepted(&time, SIGNATURE, "", TIME));
        assert!(!SigningSecret::new("other").unwrap().verifies(&time, SIGNATURE, BODY.as_bytes(), TIME));
        assert!(SigningSecret::new(" ").is_none());
    }

    proptest! {
        #[test]
        fn one_changed_byte_is_refused(at in 0..BODY.len(), digit in 3usize..67) {
            let mut body = BODY.as_bytes().to_vec();
            body[at] ^= 1;
            prop_assert!(!is_accepted(&TIME.to_string(), SIGNATURE, &String::from_utf8_lossy(&body), TIME));
            let mut signature = SIGNATURE.as_bytes().to_vec();
            signature[digit] = if signature[digit] == b'0' { b'1' } else { b'0' };
            prop_assert!(!is_accepted(&TIME.to_string(), &String::from_utf8(signature).unwrap(), BODY, TIME));
        }
    }
}
