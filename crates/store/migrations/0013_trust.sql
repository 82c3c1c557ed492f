-- Approvals: the content of a repository's script that a person allowed to run.

CREATE TABLE grove_approvals (
    codebase_id TEXT NOT NULL REFERENCES remote_agent_codebases(id) ON DELETE CASCADE,
    -- The path in the repository, such as `.grove/worktree-init.sh`.
    name TEXT NOT NULL,
    -- SHA-256 of the content, as hexadecimal digits.
    hash TEXT NOT NULL,
    -- The content, to show what changed since.
    content TEXT NOT NULL,
    approved_by TEXT,
    approved_at TEXT NOT NULL,
    PRIMARY KEY (codebase_id, name, hash)
);
