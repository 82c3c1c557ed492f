-- Questions with a fixed set of answers, and the messages that are kept until one is chosen.

-- The question and its options, as JSON, beside the text that asks it.
ALTER TABLE grove_outbox ADD COLUMN choice TEXT;
CREATE INDEX kept_messages ON grove_inbox (conversation_id, seq) WHERE status = 'asked';
