-- Runs that are packed: a part holds many of them, in blocks in the order of their tasks, or summaries of them.

CREATE TABLE parts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since bigint NOT NULL,
    rows bigint NOT NULL DEFAULT 0,
    size bigint NOT NULL DEFAULT 0,             -- bytes of its blocks
    first_claimed bigint,                       -- of summaries, the beginning of their hour or day
    last_claimed bigint,
    blocks integer NOT NULL DEFAULT 0,
    is_merged boolean NOT NULL,
    layer text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,            -- begun, complete or dropped; only complete ones are read
    starts bytea                                -- how many of its runs were claimed in each second
);
ALTER TABLE parts ALTER starts SET STORAGE EXTERNAL;
CREATE INDEX parts_by_state ON parts (state, last_claimed, first_claimed, layer);

CREATE TABLE blocks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    part bigint NOT NULL,
    first_task bigint NOT NULL,
    last_task bigint NOT NULL,
    first_claimed bigint NOT NULL,
    last_claimed bigint NOT NULL,
    rows integer NOT NULL,
    notable integer NOT NULL DEFAULT 0,         -- how many of its runs are notable
    body bytea NOT NULL                         -- compressed
);
ALTER TABLE blocks ALTER body SET STORAGE EXTERNAL;
CREATE INDEX blocks_by_task ON blocks (part, last_task, first_task);
