//! The JSON in the body of a delivery.

use std::borrow::Cow;

use grove_environments::redact::Redactor;
use serde_json::Value;

/// The payload: the body itself, or what a form carries as `payload`. A hook that somebody added
/// without changing anything sends a form.
pub fn of<'a>(content_type: &str, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Some(Cow::Borrowed(body));
    }
    let field = body.split(|byte| *byte == b'&').find_map(|field| field.strip_prefix(b"payload="))?;
    decoded(field).map(Cow::Owned)
}

fn decoded(field: &[u8]) -> Option<Vec<u8>> {
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

/// The fields of a payload that people write, whatever it is about.
const PROSE: [&str; 6] = ["body", "title", "diff_hunk", "from", "description", "message"];

/// Takes the secrets out of a payload. What programs read, such as addresses, keeps what only happens to be the
/// same as something that was configured.
pub fn without_secrets(redactor: &Redactor, payload: &mut Value) {
    redactor.clean_json(payload, |key| PROSE.contains(&key));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_form_is_read_too() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        assert_eq!(of("application/json", b"{}").unwrap().as_ref(), b"{}");
        assert_eq!(of("", b"{}").unwrap().as_ref(), b"{}");
        assert_eq!(of(form, b"a=1&payload=%7B%22a%22%3A+1%7d").unwrap().as_ref(), b"{\"a\": 1}");
        for bad in ["", "a=1", "payload=%7", "payload=%zz", "payload=%"] {
            assert!(of(form, bad.as_bytes()).is_none(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decoded(&body);
        }
    }
}
