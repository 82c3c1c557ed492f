INSERT INTO grove_verdicts (codebase_id, head_sha, against, verdict, at) SELECT id, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'x', '{}', '2026-01-05T00:00:00.000000Z' FROM remote_agent_codebases;
INSERT INTO grove_facts (name, value) VALUES ('clock', '2026-01-05T00:00:00.000000Z');
