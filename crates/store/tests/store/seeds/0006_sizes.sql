UPDATE remote_agent_isolation_environments SET size_bytes = 8192, size_at = '2026-01-06T00:00:00.000000Z' WHERE status = 'active';
