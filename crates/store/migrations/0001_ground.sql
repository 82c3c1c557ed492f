-- Portable: the same text runs on SQLite and PostgreSQL. Ids are UUIDv7 as text, times RFC 3339
-- UTC of one width as text (so that text order is time order), JSON is text, booleans are 0 and 1.

CREATE TABLE remote_agent_codebases (
    id                TEXT PRIMARY KEY,
    name              TEXT NOT NULL,
    repository_url    TEXT,
    default_cwd       TEXT NOT NULL,
    git_common_dir    TEXT NOT NULL,
    default_branch    TEXT,
    owner_folder      TEXT NOT NULL,
    project_folder    TEXT NOT NULL,
    cloned            BIGINT NOT NULL DEFAULT 0,
    ai_assistant_type TEXT,
    commands          TEXT NOT NULL DEFAULT '{}',
    created_at        TEXT NOT NULL,
    updated_at        TEXT NOT NULL,
    removed_at        TEXT
);
CREATE UNIQUE INDEX one_codebase_per_name ON remote_agent_codebases (name) WHERE removed_at IS NULL;
-- A codebase that was removed and is registered again gets its old row, folders and history back.
CREATE UNIQUE INDEX one_codebase_per_repository ON remote_agent_codebases (git_common_dir);
CREATE UNIQUE INDEX one_codebase_per_owner_folder ON remote_agent_codebases (owner_folder);
CREATE UNIQUE INDEX one_codebase_per_project_folder ON remote_agent_codebases (project_folder);

CREATE TABLE remote_agent_isolation_environments (
    id                  TEXT PRIMARY KEY,
    codebase_id         TEXT NOT NULL REFERENCES remote_agent_codebases (id),
    workflow_type       TEXT NOT NULL,
    workflow_id         TEXT NOT NULL,
    provider            TEXT NOT NULL DEFAULT 'worktree',
    working_path        TEXT NOT NULL,
    branch_name         TEXT NOT NULL,
    status              TEXT NOT NULL,
    error               TEXT,
    base_ref            TEXT,
    base_sha            TEXT,
    head_sha            TEXT,
    created_by_platform TEXT,
    created_by_user     TEXT,
    created_at          TEXT NOT NULL,
    updated_at          TEXT NOT NULL,
    last_activity_at    TEXT NOT NULL,
    size_bytes          BIGINT,
    metadata            TEXT NOT NULL DEFAULT '{}',
    node                TEXT NOT NULL,
    -- The intent of a creation: what proves a half-made thing on disk to be this row's own.
    nonce               TEXT NOT NULL
);
-- Uniqueness that is also the lock: whoever inserts the row may touch git, nobody else.
CREATE UNIQUE INDEX one_environment_per_work
    ON remote_agent_isolation_environments (codebase_id, workflow_type, workflow_id) WHERE status <> 'destroyed';
CREATE UNIQUE INDEX one_environment_per_branch
    ON remote_agent_isolation_environments (codebase_id, branch_name) WHERE status <> 'destroyed';
CREATE UNIQUE INDEX one_environment_per_path
    ON remote_agent_isolation_environments (node, working_path) WHERE status <> 'destroyed';
CREATE INDEX environments_of_codebase ON remote_agent_isolation_environments (codebase_id, created_at);

-- Numbers of issues and pull requests that an environment is also about.
CREATE TABLE grove_environment_links (
    environment_id TEXT NOT NULL REFERENCES remote_agent_isolation_environments (id) ON DELETE CASCADE,
    kind           TEXT NOT NULL,
    number         BIGINT NOT NULL,
    PRIMARY KEY (environment_id, kind, number)
);
CREATE INDEX links_by_number ON grove_environment_links (kind, number);

CREATE TABLE remote_agent_conversations (
    id                       TEXT PRIMARY KEY,
    platform_type            TEXT NOT NULL,
    platform_conversation_id TEXT NOT NULL,
    codebase_id              TEXT REFERENCES remote_agent_codebases (id) ON DELETE SET NULL,
    cwd                      TEXT,
    isolation_env_id         TEXT REFERENCES remote_agent_isolation_environments (id) ON DELETE SET NULL,
    ai_assistant_type        TEXT,
    last_activity_at         TEXT,
    created_at               TEXT NOT NULL,
    updated_at               TEXT NOT NULL,
    UNIQUE (platform_type, platform_conversation_id)
);
CREATE INDEX conversations_of_environment ON remote_agent_conversations (isolation_env_id);

CREATE TABLE remote_agent_sessions (
    id                   TEXT PRIMARY KEY,
    conversation_id      TEXT NOT NULL REFERENCES remote_agent_conversations (id) ON DELETE CASCADE,
    ai_assistant_type    TEXT NOT NULL,
    assistant_session_id TEXT,
    active               BIGINT NOT NULL DEFAULT 1,
    metadata             TEXT NOT NULL DEFAULT '{}',
    started_at           TEXT NOT NULL,
    ended_at             TEXT
);
CREATE INDEX sessions_of_conversation ON remote_agent_sessions (conversation_id);
