//! The JSON in the body of a delivery.

use std::borrow::Cow;

use grove_environments::redact::Redactor;
use serde_json::Value;

/// Returns the payload: the body itself, or the field `payload` of a form. A webhook that was added with the
/// default settings sends a form.
pub fn extract_payload<'a>(content_type: &str, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Some(Cow::Borrowed(body));
    }
    let (_, payload) = form_urlencoded::parse(body).find(|(name, _)| name == "payload")?;
    Some(Cow::Owned(payload.into_owned().into_bytes()))
}

/// The fields of a payload that people write, in all events.
const PROSE_FIELDS: [&str; 6] = ["body", "title", "diff_hunk", "from", "description", "message"];

/// Removes the secrets from a payload. Fields that programs read, such as addresses, stay unchanged, even if
/// they happen to equal a configured value.
pub fn without_secrets(redactor: &Redactor, payload: &mut Value) {
    redactor.clean_json(payload, |key| PROSE_FIELDS.contains(&key));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

    #[test]
    fn a_form_is_read_too() {
        assert_eq!(extract_payload("application/json", b"{}").unwrap().as_ref(), b"{}");
        assert_eq!(extract_payload("", b"{}").unwrap().as_ref(), b"{}");
        assert_eq!(extract_payload(FORM, b"a=1&payload=%7B%22a%22%3A+1%7d").unwrap().as_ref(), b"{\"a\": 1}");
        for bad in ["", "a=1"] {
            assert!(extract_payload(FORM, bad.as_bytes()).is_none(), "{bad}");
        }
        // An escape that is none stays as it is, which is no JSON.
        for bad in ["payload=%7", "payload=%zz", "payload=%"] {
            let payload = extract_payload(FORM, bad.as_bytes()).unwrap();
            assert!(serde_json::from_slice::<Value>(&payload).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = extract_payload(FORM, &[b"payload=", body.as_slice()].concat());
        }
    }
}
