-- How the environment of a work was chosen: every candidate and why it lost.

CREATE TABLE grove_resolutions (
    environment_id TEXT PRIMARY KEY REFERENCES remote_agent_isolation_environments (id) ON DELETE CASCADE,
    at             TEXT NOT NULL,
    steps          TEXT NOT NULL
);
