-- Whole outputs of runs, of tasks that ask for them. The run is the one of this task that was claimed then.

CREATE TABLE outputs (
    id INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    data BLOB NOT NULL,                 -- compressed
    UNIQUE (task, claimed)
) STRICT;
