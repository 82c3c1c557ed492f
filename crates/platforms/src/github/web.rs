//! Where repositories are, for git: the address behind the API's.

use super::repo::RepoName;

/// The root of GitHub's pages and repositories: `https://github.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    scheme: String,
    /// With its port.
    host: String,
}

impl Web {
    /// `None` for what is no address.
    pub fn of_api(api_url: &str) -> Option<Self> {
        let address = api_url.trim_end_matches('/');
        let address = address.strip_suffix("/api/v3").unwrap_or(address);
        let (scheme, rest) = address.split_once("://")?;
        let host = rest.split('/').next().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        // `api.github.com`, `api.company.ghe.com`.
        let host = host.strip_prefix("api.").map(str::to_owned).unwrap_or(host);
        Some(Self { scheme: scheme.to_ascii_lowercase(), host })
    }

    /// A page of GitHub's own.
    pub fn page(&self, path: &str) -> String {
        format!("{}://{}/{path}", self.scheme, self.host)
    }

    /// Where a repository is cloned from.
    pub fn address(&self, repo: &RepoName) -> String {
        format!("{}://{}/{repo}.git", self.scheme, self.host)
    }

    /// Whether a host of SSH's may be this one: its other door (`ssh.github.com`), or a name that somebody
    /// gave it (`work`, `github.com-work`).
    pub fn may_be(&self, host: &str) -> bool {
        let plain = |host: &str| host.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let (host, ours) = (plain(host), plain(&self.host));
        let is_alias = host.strip_prefix(&ours).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        !host.contains('.') || is_alias || host == format!("ssh.{ours}")
    }

    /// The repository at an address where git shows a token: of the same scheme, host and port.
    pub fn repo_at(&self, url: &str) -> Option<RepoName> {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_once('/')?;
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let same = scheme.eq_ignore_ascii_case(&self.scheme) && host.eq_ignore_ascii_case(&self.host);
        if same { repo(path) } else { None }
    }

    /// The repository that a remote is, also where git goes by SSH.
    pub fn repo_of(&self, url: &str) -> Option<RepoName> {
        self.repo_at(url).or_else(|| {
            let name = |host: &str| host.split(':').next().unwrap_or_default().to_ascii_lowercase();
            let (authority, path) = match url.split_once("://") {
                Some(("ssh", rest)) => rest.split_once('/')?,
                Some(_) => return None,
                None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
            };
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if name(host) == name(&self.host) { repo(path) } else { None }
        })
    }
}

fn repo(path: &str) -> Option<RepoName> {
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
            assert_eq!(Web::of_api(api).unwrap().address(&repo), address);
        }
        assert_eq!(Web::of_api("github.com"), None);
    }

    #[test]
    fn a_token_is_for_one_host() {
        let web = Web::of_api("https://api.github.com").unwrap();
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
    fn a_host_may_have_several_names() {
        let web = Web::of_api("https://api.github.com").unwrap();
        for host in ["github.com", "GitHub.com:22", "github.com-work", "ssh.github.com:443", "work"] {
            assert!(web.may_be(host), "{host}");
        }
        for host in ["gitlab.com", "github.com.evil.example", "ssh.gitlab.com", "mygithub.com"] {
            assert!(!web.may_be(host), "{host}");
        }
    }

    #[test]
    fn a_remote_may_go_by_ssh() {
        let web = Web::of_api("https://api.github.com").unwrap();
        let of = |url: &str| web.repo_of(url).map(|repo| repo.to_string());
        for url in ["git@github.com:octo/shop.git", "ssh://git@github.com:22/octo/shop", "https://github.com/octo/shop"]
        {
            assert_eq!(of(url).as_deref(), Some("octo/shop"), "{url}");
        }
        for url in ["git@gitlab.com:octo/shop.git", "ssh://git@evil.example/octo/shop", "/srv/x:octo/shop"] {
            assert_eq!(of(url), None, "{url}");
        }
    }
}
