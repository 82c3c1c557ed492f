-- When `size_bytes` was last measured, also if that gave no figure.

ALTER TABLE remote_agent_isolation_environments ADD COLUMN size_at TEXT;
