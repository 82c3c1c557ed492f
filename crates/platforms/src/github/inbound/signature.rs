//! Verifies that a delivery comes from GitHub: HMAC SHA-256 over the raw body, compared in constant time.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The value of the header `X-Hub-Signature-256`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookSignature([u8; 32]);

impl WebhookSignature {
    /// Parses `sha256=` and 64 hexadecimal digits; anything else is `None`.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let digits: &[u8; 64] = header.strip_prefix(b"sha256=")?.try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = digit(0)? << 4 | digit(1)?;
        }
        Some(Self(bytes))
    }
}

/// The currently valid webhook secrets: one, or several during a change.
#[derive(Clone)]
pub struct WebhookSecrets(Vec<Hmac<Sha256>>);

impl WebhookSecrets {
    /// Creates the list without empty secrets, which every sender could guess.
    pub fn new<T: AsRef<str>>(secrets: impl IntoIterator<Item = T>) -> Self {
        let given = secrets.into_iter();
        let keys = given.filter(|secret| !secret.as_ref().is_empty());
        Self(keys.filter_map(|secret| Hmac::new_from_slice(secret.as_ref().as_bytes()).ok()).collect())
    }

    /// Tells whether there is no secret; then no delivery is ever accepted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether one of the secrets made this signature of these bytes.
    pub fn matches_signature(&self, signature: WebhookSignature, body: &[u8]) -> bool {
        // All secrets are tried, so that the time does not tell which one matches.
        self.0.iter().fold(false, |fits, key| {
            let mac = key.clone().chain_update(body);
            mac.verify_slice(&signature.0).is_ok() | fits
        })
    }
}

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The example of GitHub's own documentation.
    const TEST_SECRET: &str = "It's a Secret to Everybody";
    const TEST_BODY: &[u8] = b"Hello, World!";
    const TEST_HEADER: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn is_accepted(secrets: &[&str], header: &str, body: &[u8]) -> bool {
        WebhookSignature::parse(header.as_bytes())
            .is_some_and(|signature| WebhookSecrets::new(secrets).matches_signature(signature, body))
    }

    #[test]
    fn githubs_own_example_is_accepted_with_any_of_the_secrets() {
        assert!(is_accepted(&[TEST_SECRET], TEST_HEADER, TEST_BODY));
        assert!(is_accepted(&["new", TEST_SECRET], TEST_HEADER, TEST_BODY));
        assert!(is_accepted(&[TEST_SECRET, "new"], TEST_HEADER, TEST_BODY));
    }

    #[test]
    fn everything_else_is_refused() {
        assert!(!is_accepted(&["other"], TEST_HEADER, TEST_BODY));
        assert!(!is_accepted(&[], TEST_HEADER, TEST_BODY));
        assert!(!is_accepted(&[TEST_SECRET], TEST_HEADER, b"Hello, World"));
        let digest = &TEST_HEADER["sha256=".len()..];
        for header in [
            String::new(),
            digest.to_owned(),
            format!("sha1={digest}"),
            format!("SHA256={digest}"),
            format!("sha256={}", &digest[..62]),
            format!("sha256={digest}00"),
            format!("sha256= {digest}"),
            format!("sha256={digest} "),
            format!("sha256={digest},sha256={digest}"),
            format!("sha256={}", digest.replace('7', "g")),
            format!("sha256=+{}", &digest[1..]),
        ] {
            assert!(!is_accepted(&[TEST_SECRET], &header, TEST_BODY), "{header}");
        }
    }

    #[test]
    fn a_secret_that_everybody_knows_is_none() {
        let empty = WebhookSecrets::new([""]);
        assert!(empty.is_empty());
        let mac = Hmac::<Sha256>::new_from_slice(b"").unwrap().chain_update(TEST_BODY).finalize().into_bytes();
        assert!(!empty.matches_signature(WebhookSignature(mac.into()), TEST_BODY));
    }

    proptest! {
        #[test]
        fn one_changed_byte_is_refused(at in 0..TEST_BODY.len(), change in 1u8.., digit in 7usize..71) {
            let mut body = TEST_BODY.to_vec();
            body[at] ^= change;
            prop_assert!(!is_accepted(&[TEST_SECRET], TEST_HEADER, &body));
            let mut header = TEST_HEADER.to_owned().into_bytes();
            header[digit] = if header[digit] == b'0' { b'1' } else { b'0' };
            prop_assert!(!is_accepted(&[TEST_SECRET], &String::from_utf8(header).unwrap(), TEST_BODY));
        }

        #[test]
        fn no_header_panics(header in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = WebhookSignature::parse(&header);
        }
    }
}
