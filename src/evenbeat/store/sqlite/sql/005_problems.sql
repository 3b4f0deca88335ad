-- What is wrong with tasks, and what people wrote about it. A problem of a removed task counts as closed at the removal.

CREATE TABLE problems (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL,
    cause TEXT NOT NULL,
    opened INTEGER NOT NULL,
    since INTEGER NOT NULL,     -- since when it is in its present state
    state INTEGER NOT NULL,
    severity INTEGER NOT NULL,
    worst INTEGER NOT NULL,
    worst_severity INTEGER NOT NULL,
    closed INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    ack_at INTEGER,             -- NULL: nobody has acknowledged it
    ack_until INTEGER,
    ack_sticky INTEGER,
    ack_severity INTEGER,
    ack_worst INTEGER,
    ack_who TEXT,
    ack_comment TEXT
) STRICT;
CREATE UNIQUE INDEX problems_by_task ON problems (task, cause, opened);
CREATE UNIQUE INDEX problems_open_by_task ON problems (task, cause) WHERE closed IS NULL;
CREATE INDEX problems_open ON problems (id) WHERE closed IS NULL;
CREATE INDEX problems_closed ON problems (closed) WHERE closed IS NOT NULL;

CREATE TABLE problem_notes (
    id INTEGER PRIMARY KEY,
    problem INTEGER NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX problem_notes_by_problem ON problem_notes (problem);

-- Problems are found by the names of their tasks, removed ones too.
CREATE INDEX tasks_removed_by_name ON tasks (name) WHERE removed IS NOT NULL;

-- What is wrong now: checks that are HARD and not OK, and other tasks whose latest run failed.
INSERT INTO problems (task, cause, opened, since, state, severity, worst, worst_severity)
SELECT p.task, 'state', p.result_at, p.result_at, p.state, s.severity, p.state, s.severity
FROM progress p JOIN tasks t ON t.number = p.task
    JOIN (SELECT 1 AS state, 1 AS severity UNION ALL VALUES (3, 2), (2, 3)) s ON s.state = p.state
WHERE t.removed IS NULL AND t.definition ->> 'check' AND p.hard AND p.result_at > -4611686018427387904
UNION ALL
SELECT p.task, 'failed', p.ended, p.ended, 2, 3, 2, 3
FROM progress p JOIN tasks t ON t.number = p.task
WHERE t.removed IS NULL AND NOT coalesce(t.definition ->> 'check', 0) AND p.ended IS NOT NULL
    AND p.outcome IN ('failed', 'killed', 'timeboxed', 'broken', 'lost')
ORDER BY 3, 1;
