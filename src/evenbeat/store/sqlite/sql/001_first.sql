-- What a store remembers. Times are microseconds on the epoch.
-- The hot path touches one page at random per run, that of the task's `progress`; everything else is small or appended.

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- AUTOINCREMENT: never given to another task
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    removed INTEGER,            -- a removed task stays while its history does, to name it
    definition TEXT NOT NULL    -- model.Task as JSON
) STRICT;
CREATE UNIQUE INDEX tasks_by_name ON tasks (name) WHERE removed IS NULL;
CREATE INDEX tasks_by_owner ON tasks (owner) WHERE removed IS NULL;
CREATE INDEX tasks_removed ON tasks (removed) WHERE removed IS NOT NULL;

-- Where each task stands, and its latest result. Long texts come last, so that they are read only when asked for.
CREATE TABLE progress (
    task INTEGER PRIMARY KEY REFERENCES tasks (number),
    next_nominal INTEGER,       -- NULL: nothing is known of it yet
    extra INTEGER NOT NULL DEFAULT 4611686018427387904,
    extra_kind INTEGER NOT NULL DEFAULT 0,
    last_start INTEGER NOT NULL DEFAULT -4611686018427387904,
    state INTEGER NOT NULL DEFAULT 0,
    hard INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 1,
    changes INTEGER NOT NULL DEFAULT 0,
    flapping INTEGER NOT NULL DEFAULT 0,
    result_at INTEGER NOT NULL DEFAULT -4611686018427387904,
    started INTEGER,            -- of the latest run that ended ...
    ended INTEGER,
    outcome TEXT,
    newest_plain INTEGER,       -- the heads of the two chains of its history
    newest_notable INTEGER,
    cursor BLOB,
    output TEXT NOT NULL DEFAULT ''
) STRICT;

-- The open claims. Few rows, always in memory; the primary key is what forbids a second running instance.
-- While a claim is open, where the task stands is said here, and moved to `progress` when the run ends.
CREATE TABLE claims (
    task INTEGER PRIMARY KEY REFERENCES progress (task),
    nominal INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    at INTEGER NOT NULL,
    next_nominal INTEGER NOT NULL,
    extra INTEGER NOT NULL,
    extra_kind INTEGER NOT NULL,
    started INTEGER
) STRICT;

-- Runs that ended, only ever appended and cut off at the old end. `previous` chains the runs of one task: an index
-- by task would cost a second page at random per run. Two tables, because plain successes are cut off sooner, and a
-- chain must not have holes. AUTOINCREMENT: a chain whose end was cut off must never lead to somebody else's run.
CREATE TABLE plain_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    previous INTEGER,
    task INTEGER NOT NULL,
    nominal INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    state INTEGER,              -- what this run made of a check; NULL if it told nothing new
    hard INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    output TEXT NOT NULL
) STRICT;
CREATE INDEX plain_runs_by_time ON plain_runs (claimed);

CREATE TABLE notable_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    previous INTEGER,
    task INTEGER NOT NULL,
    nominal INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    state INTEGER,
    hard INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    output TEXT NOT NULL
) STRICT;
CREATE INDEX notable_runs_by_time ON notable_runs (claimed);

-- Nominal times without a run (kind 0), as ranges that grow; and off-grid runs that were refused.
CREATE TABLE skips (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    times INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    next_nominal INTEGER,       -- NULL: an off-grid run, which no range continues
    kind INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX skips_by_task ON skips (task);
CREATE INDEX skips_by_time ON skips (at);

CREATE TABLE changes (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    name TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX changes_by_name ON changes (name);

CREATE TABLE periods (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    definition TEXT NOT NULL    -- model.Period as JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
