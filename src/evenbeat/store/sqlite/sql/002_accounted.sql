-- Progress says what is accounted for; when a task is due next is computed from its definition as it is now.

ALTER TABLE progress RENAME COLUMN next_nominal TO accounted;
ALTER TABLE claims RENAME COLUMN next_nominal TO accounted;

-- All before the next nominal time was accounted for. Without a next one: all up to this moment.
UPDATE progress SET accounted = iif(
    accounted < 4611686018427387904, accounted - 1, CAST(strftime('%s', 'now') AS INTEGER) * 1000000
) WHERE accounted IS NOT NULL;
UPDATE claims SET accounted = iif(
    accounted < 4611686018427387904, accounted - 1, CAST(strftime('%s', 'now') AS INTEGER) * 1000000
);

-- How tasks were defined until they were changed, as long as no node has settled what was due before the change.
CREATE TABLE past_definitions (
    task INTEGER NOT NULL,
    until INTEGER NOT NULL,
    definition TEXT NOT NULL,   -- model.Task as JSON
    periods TEXT,               -- all periods as they were, by name, as JSON; NULL if the task itself was changed
    PRIMARY KEY (task, until)
) STRICT, WITHOUT ROWID;

-- Nominal times of a pause, of tasks that still owe earlier ones.
CREATE TABLE pauses (
    task INTEGER PRIMARY KEY,
    pause_from INTEGER NOT NULL,
    pause_until INTEGER NOT NULL
) STRICT;
