-- What functions returned.

CREATE TABLE returned (
    task INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    value TEXT NOT NULL,                -- JSON
    PRIMARY KEY (task, claimed)
) STRICT, WITHOUT ROWID;
CREATE INDEX returned_by_time ON returned (ended);
