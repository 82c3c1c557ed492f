INSERT INTO grove_events (id, platform, delivery, kind, body, status, received_at)
VALUES ('01900000-0000-7000-8000-000000000901', 'github', 'd-1', 'ping', '{}', 'waiting', '2026-01-09T00:00:00.000000Z');
INSERT INTO grove_marks (platform, name, value) VALUES ('github', 'since', '2026-01-09T00:00:00Z');
INSERT INTO grove_outbox (id, conversation_id, seq, inbox_id, kind, text, created_at, via)
SELECT '01900000-0000-7000-8000-000000000902', conversation_id, 1, id, 'notice', 'hello', received_at, 'github' FROM grove_inbox LIMIT 1;
