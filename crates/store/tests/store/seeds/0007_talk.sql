INSERT INTO grove_inbox (id, conversation_id, seq, via, event, status, received_at)
SELECT '01900000-0000-7000-8000-000000000701', id, 1, 'test', '{"event":"closed","merged":false}', 'waiting', created_at
FROM remote_agent_conversations LIMIT 1;
