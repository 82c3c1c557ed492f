-- A conversation in a few words, from its first message or from the issue that it is about.
ALTER TABLE remote_agent_conversations ADD COLUMN title TEXT;
