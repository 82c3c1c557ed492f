-- Conversations: what came in, what goes out, and whose turn it is.

-- The channel that a thread is in, by the platform's own id.
ALTER TABLE remote_agent_conversations ADD COLUMN parent_conversation_id TEXT;
-- Whoever works on a conversation has its turn; the fence grows with every change of hands, so that
-- somebody who lost it can write nothing any more.
ALTER TABLE remote_agent_conversations ADD COLUMN turn_owner TEXT;
ALTER TABLE remote_agent_conversations ADD COLUMN turn_until TEXT;
ALTER TABLE remote_agent_conversations ADD COLUMN turn_fence BIGINT NOT NULL DEFAULT 0;
-- The branch whose worktree was removed meanwhile, to be told at its next message.
ALTER TABLE remote_agent_conversations ADD COLUMN removed_branch TEXT;

CREATE TABLE grove_inbox (
    id              TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES remote_agent_conversations (id) ON DELETE CASCADE,
    -- The order of its conversation.
    seq             BIGINT NOT NULL,
    -- The platform's name for the delivery.
    delivery        TEXT,
    -- The adapter that took it.
    via             TEXT NOT NULL,
    user_name       TEXT,
    event           TEXT NOT NULL,
    -- waiting, running, done, interrupted, failed
    status          TEXT NOT NULL,
    -- Does not wait for its turn: a wish to stop.
    overtakes       BIGINT NOT NULL DEFAULT 0,
    tries           BIGINT NOT NULL DEFAULT 0,
    -- When an agent was started for it: from then on it is never run again by itself.
    agent_at        TEXT,
    -- Somebody wants it stopped.
    stop            BIGINT NOT NULL DEFAULT 0,
    -- Whoever waits was told their place.
    told            BIGINT NOT NULL DEFAULT 0,
    received_at     TEXT NOT NULL,
    finished_at     TEXT,
    UNIQUE (conversation_id, seq)
);
CREATE UNIQUE INDEX one_message_per_delivery ON grove_inbox (delivery) WHERE delivery IS NOT NULL;
CREATE INDEX open_messages ON grove_inbox (conversation_id, seq) WHERE status IN ('waiting', 'running');

CREATE TABLE grove_outbox (
    id              TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES remote_agent_conversations (id) ON DELETE CASCADE,
    seq             BIGINT NOT NULL,
    -- The message that it belongs to.
    inbox_id        TEXT REFERENCES grove_inbox (id) ON DELETE CASCADE,
    -- notice: words on the way; answer: what a message is answered with, exactly once.
    kind            TEXT NOT NULL,
    text            TEXT NOT NULL,
    created_at      TEXT NOT NULL,
    UNIQUE (conversation_id, seq)
);
CREATE UNIQUE INDEX one_answer_per_message ON grove_outbox (inbox_id) WHERE kind = 'answer';
