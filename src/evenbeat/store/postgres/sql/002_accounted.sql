-- Progress says what is accounted for; when a task is due next is computed from its definition as it is now.

ALTER TABLE progress RENAME COLUMN next_nominal TO accounted;
ALTER TABLE claims RENAME COLUMN next_nominal TO accounted;

-- All before the next nominal time was accounted for. Without a next one: all up to this moment.
UPDATE progress SET accounted = CASE
    WHEN accounted < 4611686018427387904 THEN accounted - 1
    ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
END WHERE accounted IS NOT NULL;
UPDATE claims SET accounted = CASE
    WHEN accounted < 4611686018427387904 THEN accounted - 1
    ELSE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
END;

-- How tasks were defined until they were changed, as long as no node has settled what was due before the change.
CREATE TABLE past_definitions (
    task bigint NOT NULL,
    until bigint NOT NULL,
    definition text NOT NULL,           -- model.Task as JSON
    periods text,                       -- all periods as they were, by name, as JSON; NULL if the task was changed
    PRIMARY KEY (task, until)
);

-- Nominal times of a pause, of tasks that still owe earlier ones.
CREATE TABLE pauses (
    task bigint PRIMARY KEY,
    pause_from bigint NOT NULL,
    pause_until bigint NOT NULL
);
