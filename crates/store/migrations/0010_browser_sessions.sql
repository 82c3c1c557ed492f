-- Browsers that may use the page. Only digests are kept of what a link or a cookie carries.

-- Links that let one browser in, once.
CREATE TABLE grove_login_links (
    -- The digest of the link's code.
    id         TEXT PRIMARY KEY,
    -- The host name that the link leads to; it works under no other.
    host       TEXT NOT NULL,
    expires_at TEXT NOT NULL
);

-- Browsers that were let in.
CREATE TABLE grove_browser_sessions (
    -- The digest of the cookie's value.
    id         TEXT PRIMARY KEY,
    -- The host name that the cookie belongs to; it counts under no other.
    host       TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
