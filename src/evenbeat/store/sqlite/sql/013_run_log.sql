-- Runs that ended are logged together, one record per commit, until they are packed into parts. Rows of before stay in
-- `plain_runs` and `notable_runs` until they are packed too.

CREATE TABLE run_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,   -- AUTOINCREMENT: runs are packed once, by the ids of their records
    runs INTEGER NOT NULL,
    notable INTEGER NOT NULL,               -- how many of them are
    first_claimed INTEGER NOT NULL,
    last_claimed INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
