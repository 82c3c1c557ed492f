INSERT INTO grove_approvals (codebase_id, name, hash, content, approved_by, approved_at)
SELECT id, '.grove/worktree-init.sh', 'abc', 'npm ci', 'alice', created_at FROM remote_agent_codebases;
