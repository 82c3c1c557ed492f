INSERT INTO grove_login_links (id, host, expires_at)
VALUES ('link-digest', 'grove-1.localhost', '2999-01-10T00:00:00.000000Z');
INSERT INTO grove_browser_sessions (id, host, created_at, expires_at)
VALUES ('session-digest', 'grove-1.localhost', '2026-01-10T00:00:00.000000Z', '2999-01-10T00:00:00.000000Z');
