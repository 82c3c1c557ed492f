INSERT INTO remote_agent_codebases (id, name, repository_url, default_cwd, git_common_dir, default_branch, owner_folder, project_folder, cloned, created_at, updated_at)
VALUES ('0192f0c1-0000-7000-8000-000000000001', 'app', 'https://example.com/acme/app', '/src/app', '/src/app/.git', 'main', 'acme/app', 'app', 0, '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z');
INSERT INTO remote_agent_isolation_environments (id, codebase_id, workflow_type, workflow_id, working_path, branch_name, status, error, created_at, updated_at, last_activity_at, node, nonce)
VALUES ('0192f0c1-0000-7000-8000-000000000002', '0192f0c1-0000-7000-8000-000000000001', 'issue', '42', '/w/issue-42', 'issue-42', 'destroyed', 'disk full', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', 'here', '0192f0c1-0000-7000-8000-00000000000a');
INSERT INTO remote_agent_isolation_environments (id, codebase_id, workflow_type, workflow_id, working_path, branch_name, status, base_ref, base_sha, head_sha, created_by_platform, created_at, updated_at, last_activity_at, size_bytes, metadata, node, nonce)
VALUES ('0192f0c1-0000-7000-8000-000000000003', '0192f0c1-0000-7000-8000-000000000001', 'issue', '42', '/w/issue-42', 'issue-42', 'active', 'origin/main', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'github', '2026-01-02T00:00:00.000000Z', '2026-01-02T00:00:00.000000Z', '2026-01-02T00:00:00.000000Z', 4096, '{"adopted_from":"skill"}', 'here', '0192f0c1-0000-7000-8000-00000000000b');
INSERT INTO grove_environment_links (environment_id, kind, number) VALUES ('0192f0c1-0000-7000-8000-000000000003', 'issue', 42);
INSERT INTO grove_environment_links (environment_id, kind, number) VALUES ('0192f0c1-0000-7000-8000-000000000003', 'issue', 41);
INSERT INTO remote_agent_conversations (id, platform_type, platform_conversation_id, codebase_id, isolation_env_id, created_at, updated_at)
VALUES ('0192f0c1-0000-7000-8000-000000000004', 'github', 'acme/app#42', '0192f0c1-0000-7000-8000-000000000001', '0192f0c1-0000-7000-8000-000000000003', '2026-01-02T00:00:00.000000Z', '2026-01-02T00:00:00.000000Z');
INSERT INTO remote_agent_sessions (id, conversation_id, ai_assistant_type, started_at)
VALUES ('0192f0c1-0000-7000-8000-000000000005', '0192f0c1-0000-7000-8000-000000000004', 'claude', '2026-01-02T00:00:00.000000Z');
