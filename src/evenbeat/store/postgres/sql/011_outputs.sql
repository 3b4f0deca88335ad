-- Whole outputs of runs, of tasks that ask for them. The run is the one of this task that was claimed then.

CREATE TABLE outputs (
    task bigint NOT NULL,
    claimed bigint NOT NULL,
    data bytea NOT NULL,                -- compressed
    PRIMARY KEY (task, claimed)
);
ALTER TABLE outputs ALTER data SET STORAGE EXTERNAL;
CREATE INDEX outputs_by_time ON outputs (claimed);
