-- Who is making an environment, so that a crash is told from slowness, and how far they have come.

ALTER TABLE remote_agent_isolation_environments ADD COLUMN owner TEXT;
ALTER TABLE remote_agent_isolation_environments ADD COLUMN lease_until TEXT;

CREATE TABLE grove_journal (
    id             TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES remote_agent_isolation_environments (id) ON DELETE CASCADE,
    at             TEXT NOT NULL,
    step           TEXT NOT NULL,
    detail         TEXT
);
CREATE INDEX journal_of_environment ON grove_journal (environment_id, id);
