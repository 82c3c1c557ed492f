INSERT INTO grove_usage (id, inbox_id, conversation_id, agent, input_tokens, output_tokens, cost_microdollars, created_at)
SELECT '01900000-0000-7000-8000-000000000801', id, conversation_id, 'claude', 1200, 34, 5600, received_at FROM grove_inbox LIMIT 1;
