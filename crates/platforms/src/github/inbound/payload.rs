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
    let field = body.split(|byte| *byte == b'&').find_map(|field| field.strip_prefix(b"payload="))?;
    decode_form_field(field).map(Cow::Owned)
}

fn decode_form_field(field: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(*bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit()? << 4 | digit()?
            }
            byte => *byte,
        });
    }
    Some(out)
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

    #[test]
    fn a_form_is_read_too() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        assert_eq!(extract_payload("application/json", b"{}").unwrap().as_ref(), b"{}");
        assert_eq!(extract_payload("", b"{}").unwrap().as_ref(), b"{}");
        assert_eq!(extract_payload(form, b"a=1&payload=%7B%22a%22%3A+1%7d").unwrap().as_ref(), b"{\"a\": 1}");
        for bad in ["", "a=1", "payload=%7", "payload=%zz", "payload=%"] {
            assert!(extract_payload(form, bad.as_bytes()).is_none(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode_form_field(&body);
        }
    }
}
