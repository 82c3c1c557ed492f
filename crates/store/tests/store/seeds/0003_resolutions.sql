INSERT INTO grove_resolutions (environment_id, at, steps) VALUES ('0192f0c1-0000-7000-8000-000000000003', '2026-01-03T00:00:00.000000Z', '[]');
