-- What is known of commits against their bases; commits never change, so neither do these.

CREATE TABLE grove_verdicts (
    codebase_id TEXT NOT NULL REFERENCES remote_agent_codebases (id) ON DELETE CASCADE,
    head_sha    TEXT NOT NULL,
    -- What it was held against: where the work began, whether it had commits, the bases' tips.
    against     TEXT NOT NULL,
    verdict     TEXT NOT NULL,
    at          TEXT NOT NULL,
    PRIMARY KEY (codebase_id, head_sha, against)
);

-- Hibernated: kept without end, for the next message.
ALTER TABLE grove_trash ADD COLUMN sleeps BIGINT NOT NULL DEFAULT 0;

-- Single facts of this store: when a clean-up last ran, …
CREATE TABLE grove_facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
