-- What was removed and can be brought back. A row is also the intent of a removal or an undo that
-- is under way (`moving`, `returning`); between them it is `kept`.

CREATE TABLE grove_trash (
    environment_id TEXT PRIMARY KEY REFERENCES remote_agent_isolation_environments (id) ON DELETE CASCADE,
    phase          TEXT NOT NULL,
    -- The status to go back to.
    from_status    TEXT NOT NULL,
    manifest       TEXT NOT NULL,
    removed_at     TEXT NOT NULL,
    -- Missing: kept without end.
    keep_until     TEXT,
    compacted_at   TEXT,
    -- The ids of the conversations that worked there, as JSON.
    conversations  TEXT NOT NULL DEFAULT '[]'
);
