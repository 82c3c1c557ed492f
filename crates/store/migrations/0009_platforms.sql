-- What platforms told us, and what they are told.

-- What a platform said, word for word, before anybody has read it.
CREATE TABLE grove_events (
    id           TEXT PRIMARY KEY,
    platform     TEXT NOT NULL,
    -- The platform's name for the delivery; the same one is kept once.
    delivery     TEXT NOT NULL,
    kind         TEXT NOT NULL,
    body         TEXT NOT NULL,
    -- waiting, done, failed
    status       TEXT NOT NULL,
    tries        BIGINT NOT NULL DEFAULT 0,
    -- Who is at it, and until when that holds for other machines.
    worker       TEXT,
    worker_until TEXT,
    -- Not before this.
    not_before   TEXT,
    -- What came of it, in a few words.
    outcome      TEXT,
    received_at  TEXT NOT NULL,
    UNIQUE (platform, delivery)
);
CREATE INDEX open_events ON grove_events (platform, id) WHERE status = 'waiting';

-- How far a platform was read: times, entity tags, offsets.
CREATE TABLE grove_marks (
    platform     TEXT NOT NULL,
    name     TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (platform, name)
);

-- The adapter that sends it; without one, whoever wants it reads it here.
ALTER TABLE grove_outbox ADD COLUMN via TEXT;
ALTER TABLE grove_outbox ADD COLUMN sent_at TEXT;
-- The platform's own names for it, as that adapter writes them.
ALTER TABLE grove_outbox ADD COLUMN sent_as TEXT;
-- How often sending it was begun: from the second time on it may be there already.
ALTER TABLE grove_outbox ADD COLUMN tries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grove_outbox ADD COLUMN sender TEXT;
ALTER TABLE grove_outbox ADD COLUMN sender_until TEXT;
ALTER TABLE grove_outbox ADD COLUMN not_before TEXT;
-- Why it was not sent, the last time or for ever.
ALTER TABLE grove_outbox ADD COLUMN unsendable TEXT;
CREATE INDEX unsent ON grove_outbox (conversation_id, seq) WHERE via IS NOT NULL AND sent_at IS NULL;

-- The platform's own names for the answer that grows while an agent works.
ALTER TABLE grove_inbox ADD COLUMN draft TEXT;
