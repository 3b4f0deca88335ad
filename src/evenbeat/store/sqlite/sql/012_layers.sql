-- Runs that are packed: a part holds many of them, in blocks in the order of their tasks, or summaries of them.

CREATE TABLE parts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,   -- AUTOINCREMENT: a node that died must not add to the part of another
    layer TEXT NOT NULL,
    since INTEGER NOT NULL,
    is_merged INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL,                        -- begun, complete or dropped; only complete ones are read
    rows INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,            -- bytes of its blocks
    blocks INTEGER NOT NULL DEFAULT 0,
    first_claimed INTEGER,                      -- of summaries, the beginning of their hour or day
    last_claimed INTEGER,
    starts BLOB                                 -- how many of its runs were claimed in each second
) STRICT;
CREATE INDEX parts_by_state ON parts (state, last_claimed, first_claimed, layer);

-- What a block holds comes last: it is longer than a page, and the other columns are read without it.
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY,
    part INTEGER NOT NULL,
    first_task INTEGER NOT NULL,
    last_task INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    first_claimed INTEGER NOT NULL,
    last_claimed INTEGER NOT NULL,
    notable INTEGER NOT NULL DEFAULT 0,         -- how many of its runs are notable
    body BLOB NOT NULL
) STRICT;
CREATE INDEX blocks_by_task ON blocks (part, last_task, first_task);

-- Whole outputs outlive the rows of their runs, and go when the layers no longer have the run.
CREATE INDEX outputs_by_time ON outputs (claimed);
