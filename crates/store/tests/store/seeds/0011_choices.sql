INSERT INTO grove_inbox (id, conversation_id, seq, via, event, status, received_at)
SELECT '01900000-0000-7000-8000-000000001101', conversation_id, 11, 'test', '{"event":"message","text":"fix the login"}', 'asked', received_at FROM grove_inbox LIMIT 1;
INSERT INTO grove_outbox (id, conversation_id, seq, inbox_id, kind, text, created_at, choice)
SELECT '01900000-0000-7000-8000-000000001102', conversation_id, 11, id, 'answer', 'Which one? a, b.', received_at, '{"question":"Which one?","options":[{"label":"a","text":"a"},{"label":"b","text":"b"}]}' FROM grove_inbox WHERE status = 'asked';
