-- What functions returned.

CREATE TABLE returned (
    task bigint NOT NULL,
    claimed bigint NOT NULL,
    ended bigint NOT NULL,
    value text COLLATE "C" NOT NULL,    -- JSON
    PRIMARY KEY (task, claimed)
);
CREATE INDEX returned_by_time ON returned (ended);
