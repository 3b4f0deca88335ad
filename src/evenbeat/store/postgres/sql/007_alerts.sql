-- What each channel of a contact knows of a problem, what was decided about that, and the messages.

-- The transaction that last changed a problem: other nodes look for those that they have not seen. `DEFAULT` sets it.
ALTER TABLE problems
    ADD COLUMN hold text COLLATE "C" NOT NULL DEFAULT '',      -- why nobody is told of it now
    ADD COLUMN held_since bigint,
    ADD COLUMN changed_by bigint NOT NULL DEFAULT 0;
ALTER TABLE problems ALTER COLUMN changed_by SET DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX problems_by_change ON problems (changed_by);

CREATE TABLE alerts (
    problem bigint NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
    version bigint NOT NULL,
    last_sent bigint NOT NULL,
    leaves_at bigint NOT NULL,
    counts_from bigint NOT NULL,
    told_ack bigint NOT NULL,
    message bigint NOT NULL,            -- 0: none is under way
    sent smallint NOT NULL,
    is_known boolean NOT NULL,
    is_reminder boolean NOT NULL,
    is_over boolean NOT NULL,
    channel text COLLATE "C" NOT NULL,
    contact text COLLATE "C" NOT NULL,
    waiting text COLLATE "C" NOT NULL,
    held text COLLATE "C" NOT NULL,
    PRIMARY KEY (problem, channel)
) WITH (fillfactor = 70);
CREATE INDEX alerts_not_over ON alerts (problem) WHERE NOT is_over;

CREATE TABLE alert_decisions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    problem bigint NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
    message bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,
    contact text COLLATE "C" NOT NULL,
    decision text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL
);
CREATE INDEX alert_decisions_by_problem ON alert_decisions (problem, at, id);
CREATE INDEX alert_decisions_by_time ON alert_decisions (at, id);

-- One row: the largest number that a message has had.
CREATE TABLE last_message (number bigint NOT NULL);
INSERT INTO last_message VALUES (0);

CREATE TABLE messages (
    id bigint PRIMARY KEY,
    created bigint NOT NULL,
    next_attempt bigint,
    started_attempt bigint,             -- its end is not known
    ended bigint,
    items integer NOT NULL,
    attempts integer NOT NULL,
    possible_repetition boolean NOT NULL,
    is_complete boolean NOT NULL,       -- false: parts of it are still to come
    channel text COLLATE "C" NOT NULL,
    contact text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    error text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX messages_by_channel ON messages (channel, id);
CREATE INDEX messages_by_contact ON messages (contact, id);
CREATE INDEX messages_by_state ON messages (state, id);
CREATE INDEX messages_by_time ON messages (created);
CREATE INDEX messages_ended ON messages (ended) WHERE ended IS NOT NULL;

CREATE TABLE message_documents (
    message bigint NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    part integer NOT NULL,              -- the parts in their order are the document
    document bytea NOT NULL,
    PRIMARY KEY (message, part)
);
