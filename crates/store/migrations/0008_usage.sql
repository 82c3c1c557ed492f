-- What the agents took, run by run.

CREATE TABLE grove_usage (
    id                TEXT PRIMARY KEY,
    -- The message that began the run.
    inbox_id          TEXT NOT NULL REFERENCES grove_inbox (id) ON DELETE CASCADE,
    conversation_id   TEXT NOT NULL REFERENCES remote_agent_conversations (id) ON DELETE CASCADE,
    agent             TEXT NOT NULL,
    input_tokens      BIGINT NOT NULL,
    output_tokens     BIGINT NOT NULL,
    -- Millionths of a US dollar.
    cost_microdollars BIGINT NOT NULL,
    created_at        TEXT NOT NULL
);
CREATE INDEX usage_of_conversation ON grove_usage (conversation_id);
