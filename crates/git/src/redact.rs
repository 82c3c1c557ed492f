//! Removes credentials from messages: `https://user:secret@host` becomes `https://***@host`.

/// Replaces the user-information part of every URL in `text` by `***`.
pub fn redact_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = rest.find("://") {
        let (before, after) = rest.split_at(found + 3);
        out.push_str(before);
        // The authority ends at the first character that cannot be part of it. A password with an
        // unescaped `@` is still caught: the last `@` of the authority counts.
        let end = after.find(|c: char| c == '/' || c.is_whitespace() || "'\"<>`".contains(c)).unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rfind('@') {
            // `ssh://git@host` names an account, not a secret.
            Some(at) if is_plain_account(before, &authority[..at]) => out.push_str(authority),
            Some(at) => {
                out.push_str("***");
                out.push_str(&authority[at..]);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn is_plain_account(before: &str, user: &str) -> bool {
    before.ends_with("ssh://") && !user.contains(':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::redact_credentials;

    #[test]
    fn only_the_secret_goes() {
        for (text, clean) in [
            ("https://me:ghp_x@github.com/a/b.git", "https://***@github.com/a/b.git"),
            ("https://ghp_x@github.com/a", "https://***@github.com/a"),
            ("unable to access 'https://u:p@ss@h/x/': gone", "unable to access 'https://***@h/x/': gone"),
            ("ssh://git@github.com/a/b", "ssh://git@github.com/a/b"),
            ("ssh://git:pw@github.com/a/b", "ssh://***@github.com/a/b"),
            ("git@github.com:a/b.git", "git@github.com:a/b.git"),
            ("two https://a:b@x/ and http://c:d@y", "two https://***@x/ and http://***@y"),
            ("mail me@grove.dev", "mail me@grove.dev"),
        ] {
            assert_eq!(redact_credentials(text), clean);
        }
    }

    proptest! {
        #[test]
        fn a_secret_in_a_url_never_survives(before in any::<String>(), user in "[a-z]{1,8}", secret in "[A-Z0-9]{12}", after in any::<String>()) {
            let text = format!("{before} https://{user}:{secret}@host.example/x {after}");
            prop_assert!(!redact_credentials(&text).contains(&secret) || before.contains(&secret) || after.contains(&secret));
        }
    }
}
