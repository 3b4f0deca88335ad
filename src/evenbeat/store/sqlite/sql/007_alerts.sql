-- What each channel of a contact knows of a problem, what was decided about that, and the messages.

ALTER TABLE problems ADD COLUMN hold TEXT NOT NULL DEFAULT '';     -- why nobody is told of it now
ALTER TABLE problems ADD COLUMN held_since INTEGER;

CREATE TABLE alerts (
    problem INTEGER NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
    channel TEXT NOT NULL,
    contact TEXT NOT NULL,
    version INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    is_known INTEGER NOT NULL,
    last_sent INTEGER NOT NULL,
    waiting TEXT NOT NULL,
    is_reminder INTEGER NOT NULL,
    leaves_at INTEGER NOT NULL,
    counts_from INTEGER NOT NULL,
    held TEXT NOT NULL,
    told_ack INTEGER NOT NULL,
    message INTEGER NOT NULL,       -- 0: none is under way
    is_over INTEGER NOT NULL,
    PRIMARY KEY (problem, channel)
) STRICT, WITHOUT ROWID;
CREATE INDEX alerts_not_over ON alerts (problem) WHERE NOT is_over;

CREATE TABLE alert_decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    problem INTEGER NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
    channel TEXT NOT NULL,
    contact TEXT NOT NULL,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    message INTEGER NOT NULL,
    item TEXT NOT NULL
) STRICT;
CREATE INDEX alert_decisions_by_problem ON alert_decisions (problem, at);
CREATE INDEX alert_decisions_by_time ON alert_decisions (at);

CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    contact TEXT NOT NULL,
    created INTEGER NOT NULL,
    items INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt INTEGER,
    started_attempt INTEGER,        -- its end is not known
    possible_repetition INTEGER NOT NULL,
    ended INTEGER,
    error TEXT NOT NULL,
    detail TEXT NOT NULL,
    is_complete INTEGER NOT NULL    -- 0: parts of it are still to come
) STRICT;
CREATE INDEX messages_by_channel ON messages (channel);
CREATE INDEX messages_by_contact ON messages (contact);
CREATE INDEX messages_by_state ON messages (state);
CREATE INDEX messages_by_time ON messages (created);
CREATE INDEX messages_ended ON messages (ended) WHERE ended IS NOT NULL;
INSERT INTO sqlite_sequence (name, seq) VALUES ('messages', 0);

-- A table of its own: a document may be of megabytes, and what else is known of a message changes with each attempt.
CREATE TABLE message_documents (
    message INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    part INTEGER NOT NULL,          -- the parts in their order are the document
    document BLOB NOT NULL,
    PRIMARY KEY (message, part)
) STRICT;
