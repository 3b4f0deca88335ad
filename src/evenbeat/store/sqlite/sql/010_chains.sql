-- Tasks that follow others: how runs of the tasks before them ended, and which of these ends they have used.

CREATE TABLE chain_ends (
    task INTEGER NOT NULL,
    succeeded INTEGER NOT NULL, -- 0: it failed, and is not tried again
    nominal INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (task, succeeded)
) STRICT, WITHOUT ROWID;

CREATE TABLE chain_uses (
    task INTEGER PRIMARY KEY,
    used BLOB NOT NULL
) STRICT;

-- Their definitions say "after" or "after_failure"; so do some that say when somebody is notified.
CREATE INDEX tasks_after_others ON tasks (number) WHERE removed IS NULL AND instr(definition, '"after');
