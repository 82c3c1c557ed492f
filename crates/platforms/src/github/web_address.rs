//! The addresses of repositories for git, derived from the address of the API.

use crate::github::repo::RepoName;

/// The root of GitHub's pages and repositories: `https://github.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubWeb {
    scheme: String,
    /// The host with its port.
    host: String,
}

impl GithubWeb {
    /// Derives the root from the address of the API; `None` if that is not an address.
    pub fn of_api(api_url: &str) -> Option<Self> {
        let address = api_url.trim_end_matches('/');
        let address = address.strip_suffix("/api/v3").unwrap_or(address);
        let (scheme, rest) = address.split_once("://")?;
        let host = rest.split('/').next().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        // `api.github.com`, `api.company.ghe.com`.
        let host = host.strip_prefix("api.").map(str::to_owned).unwrap_or(host);
        Some(Self { scheme: scheme.to_ascii_lowercase(), host })
    }

    /// Returns the address of one of GitHub's own pages.
    pub fn page_url(&self, path: &str) -> String {
        format!("{}://{}/{path}", self.scheme, self.host)
    }

    /// Returns the address to clone a repository from.
    pub fn clone_url(&self, repo: &RepoName) -> String {
        format!("{}://{}/{repo}.git", self.scheme, self.host)
    }

    /// Returns the repository at an address where git sends a token: with the same scheme, host and port.
    pub fn repo_at(&self, url: &str) -> Option<RepoName> {
        let (scheme, host, path) = split_url(url)?;
        let same = scheme.eq_ignore_ascii_case(&self.scheme) && host.eq_ignore_ascii_case(&self.host);
        if same { parse_repo_path(path) } else { None }
    }

    /// Returns the repository of a remote, also if git uses SSH.
    pub fn repo_of(&self, url: &str) -> Option<RepoName> {
        let (scheme, host, path) = split_url(url)?;
        let by_ssh = scheme == "ssh" && self.is_ours(host);
        self.repo_at(url).or_else(|| if by_ssh { parse_repo_path(path) } else { None })
    }

    /// Returns the repository that a remote may be: its host is an alias of the user's SSH settings
    /// (`work`).
    pub fn repo_perhaps(&self, url: &str) -> Option<RepoName> {
        let (_, host, path) = split_url(url)?;
        if self.is_ours(host) || !host.contains('.') { parse_repo_path(path) } else { None }
    }

    /// Tells whether a host is GitHub's, also by its second address (`ssh.github.com`), or with a suffix for
    /// one of several accounts (`github.com-work`).
    fn is_ours(&self, host: &str) -> bool {
        let plain = |host: &str| host.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let (host, ours) = (plain(host), plain(&self.host));
        let is_alias = host.strip_prefix(&ours).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        is_alias || host == format!("ssh.{ours}")
    }
}

/// Tells whether an address names a remote repository; a path of this machine does not.
pub fn is_repo(url: &str) -> bool {
    split_url(url).is_some_and(|(_, _, path)| parse_repo_path(path).is_some())
}

/// Splits an address into scheme, host with port, and path: `https://host/owner/name.git`,
/// `git@host:owner/name.git`.
fn split_url(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, authority, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((scheme, rest)) => rest.split_once('/').map(|(authority, path)| (scheme, authority, path))?,
        None => {
            let (authority, path) = url.split_once(':').filter(|(host, _)| !host.contains('/'))?;
            ("ssh", authority, path)
        }
    };
    Some((scheme, authority.rsplit_once('@').map_or(authority, |(_, host)| host), path))
}

fn parse_repo_path(path: &str) -> Option<RepoName> {
    let path = path.trim_matches('/');
    RepoName::parse(path.strip_suffix(".git").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_behind_the_api() {
        let repo = RepoName::parse("octo/shop").unwrap();
        for (api, address) in [
            ("https://api.github.com", "https://github.com/octo/shop.git"),
            ("https://API.github.com/", "https://github.com/octo/shop.git"),
            ("https://git.firm.example/api/v3", "https://git.firm.example/octo/shop.git"),
            ("https://api.firm.ghe.com", "https://firm.ghe.com/octo/shop.git"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/octo/shop.git"),
        ] {
            assert_eq!(GithubWeb::of_api(api).unwrap().clone_url(&repo), address);
        }
        assert_eq!(GithubWeb::of_api("github.com"), None);
    }

    #[test]
    fn a_token_is_for_one_host() {
        let web = GithubWeb::of_api("https://api.github.com").unwrap();
        let at = |url: &str| web.repo_at(url).map(|repo| repo.to_string());
        for url in
            ["https://github.com/octo/shop.git", "https://GitHub.com/octo/shop", "https://me@github.com/octo/shop/"]
        {
            assert_eq!(at(url).as_deref(), Some("octo/shop"), "{url}");
        }
        for url in [
            "http://github.com/octo/shop.git",
            "https://github.com:8443/octo/shop.git",
            "https://github.com.evil.example/octo/shop.git",
            "https://github.com@evil.example/octo/shop.git",
            "https://evil.example/github.com/octo/shop",
            "https://github.com/octo",
            "https://github.com/octo/shop/more",
            "git@github.com:octo/shop.git",
            "/srv/octo/shop",
            "",
        ] {
            assert_eq!(at(url), None, "{url}");
        }
    }

    #[test]
    fn a_remote_may_go_by_ssh() {
        let web = GithubWeb::of_api("https://api.github.com").unwrap();
        let of = |url: &str| web.repo_of(url).map(|repo| repo.to_string());
        for url in [
            "git@github.com:octo/shop.git",
            "ssh://git@github.com:22/octo/shop",
            "https://github.com/octo/shop",
            "git@github.com-work:octo/shop",
            "ssh://git@ssh.github.com:443/octo/shop.git",
        ] {
            assert_eq!(of(url).as_deref(), Some("octo/shop"), "{url}");
            assert_eq!(web.repo_at(url).is_some(), url.starts_with("https:"), "no token goes by SSH: {url}");
        }
        for url in [
            "git@gitlab.com:octo/shop.git",
            "ssh://git@evil.example/octo/shop",
            "git@github.com.evil.example:octo/shop",
            "git@mygithub.com:octo/shop",
            "/srv/x:octo/shop",
        ] {
            assert_eq!((of(url), web.repo_perhaps(url)), (None, None), "{url}");
        }
        assert_eq!(of("git@work:octo/shop"), None);
        assert_eq!(web.repo_perhaps("git@work:octo/shop").map(|repo| repo.to_string()).as_deref(), Some("octo/shop"));
        assert!(is_repo("git@gitlab.com:octo/shop.git") && !is_repo("/srv/octo/shop") && !is_repo("file:///octo/shop"));
    }
}
