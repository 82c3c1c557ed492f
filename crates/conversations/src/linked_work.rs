//! Issues and pull requests that a message names by their address, so that a chat about them works in their
//! environment.

/// The issues and pull requests of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkedWork {
    pub issues: Vec<u64>,
    pub pull_requests: Vec<u64>,
}

/// Returns the work that a text names by its address on the repository's own host:
/// `https://github.com/acme/app/issues/42`. Addresses of other repositories do not count.
pub fn linked_work(text: &str, repository_url: Option<&str>) -> LinkedWork {
    let mut linked = LinkedWork::default();
    let Some(repository) = repository_url.and_then(repository_of) else { return linked };
    for scheme in ["https://", "http://"] {
        for (at, _) in text.match_indices(scheme) {
            let address = text[at + scheme.len()..].split(|c: char| !is_address_char(c)).next().unwrap_or_default();
            let address = address.to_lowercase();
            let Some((kind, number)) = work_of(&address, &repository) else { continue };
            let list = if kind == "issues" { &mut linked.issues } else { &mut linked.pull_requests };
            if !list.contains(&number) {
                list.push(number);
            }
        }
    }
    linked
}

fn is_address_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/@%+".contains(c)
}

/// Returns the kind and number that an address `host/owner/repo/kind/number…` names.
fn work_of<'a>(address: &'a str, repository: &str) -> Option<(&'a str, u64)> {
    let rest = address.strip_prefix(repository)?.strip_prefix('/')?;
    // GitLab puts a dash between the repository and the rest.
    let rest = rest.strip_prefix("-/").unwrap_or(rest);
    let (kind, rest) = rest.split_once('/')?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    let continues = rest[digits.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if continues || !matches!(kind, "issues" | "pull" | "merge_requests") {
        return None;
    }
    Some((kind, digits.parse().ok()?))
}

/// Returns `host/owner/repo` of a repository's address, in lower case; `None` for a path.
fn repository_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme), rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let (host, path) = match scheme {
        Some("http" | "https") => rest.split_once('/')?,
        // The port of ssh is not that of the pages.
        Some("ssh" | "git") => {
            rest.split_once('/').map(|(host, path)| (host.split(':').next().unwrap_or(host), path))?
        }
        Some(_) => return None,
        None => rest.split_once(':')?,
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && path.contains('/')).then(|| format!("{host}/{path}").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, url: &str) -> (Vec<u64>, Vec<u64>) {
        let LinkedWork { issues, pull_requests } = linked_work(text, Some(url));
        (issues, pull_requests)
    }

    #[test]
    fn addresses_of_the_repository_link() {
        let url = "https://github.com/Acme/App.git";
        for (text, issues, pulls) in [
            ("please fix https://github.com/acme/app/issues/42", vec![42], vec![]),
            (
                "<https://github.com/ACME/app/issues/42#issuecomment-7>, and (https://github.com/acme/app/pull/7).",
                vec![42],
                vec![7],
            ),
            (
                "[it](https://github.com/acme/app/pull/7/files) twice https://github.com/acme/app/pull/7?x=1",
                vec![],
                vec![7],
            ),
            ("https://github.com/acme/app/issues/42 http://github.com/acme/app/issues/43", vec![42, 43], vec![]),
            ("https://github.com/acme/app2/issues/42", vec![], vec![]),
            ("https://github.com/other/app/issues/42", vec![], vec![]),
            ("https://evil.example/github.com/acme/app/issues/42", vec![], vec![]),
            ("https://github.com.evil.example/acme/app/issues/42", vec![], vec![]),
            ("https://github.com/acme/app/issues/42x https://github.com/acme/app/issues/new", vec![], vec![]),
            ("#42, acme/app#42, see issue 42", vec![], vec![]),
            ("https://github.com/acme/app/issues/99999999999999999999", vec![], vec![]),
        ] {
            assert_eq!(found(text, url), (issues, pulls), "{text}");
        }
    }

    #[test]
    fn every_form_of_a_repositorys_address_counts() {
        let text = "https://git.example/team/sub/app/-/issues/5 https://git.example/team/sub/app/-/merge_requests/6";
        for url in [
            "https://git.example/team/sub/app.git",
            "https://***@git.example/team/sub/app",
            "git@git.example:team/sub/app.git",
            "ssh://git@git.example:2222/team/sub/app.git",
        ] {
            assert_eq!(found(text, url), (vec![5], vec![6]), "{url}");
        }
        for url in ["/srv/git/team/sub/app", "file:///git.example/team/sub/app", "git.example", ""] {
            assert_eq!(found(text, url), (vec![], vec![]), "{url}");
        }
        assert_eq!(linked_work(text, None), LinkedWork::default());
    }
}
