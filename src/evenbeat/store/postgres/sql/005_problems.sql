-- What is wrong with tasks, and what people wrote about it. A problem of a removed task counts as closed at the removal:
-- a batch that opens one meanwhile does not have to wait for that.

CREATE TABLE problems (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL,
    opened bigint NOT NULL,
    since bigint NOT NULL,              -- since when it is in its present state
    closed bigint,
    ack_at bigint,                      -- NULL: nobody has acknowledged it
    ack_until bigint,
    state smallint NOT NULL,
    severity smallint NOT NULL,
    worst smallint NOT NULL,
    worst_severity smallint NOT NULL,
    ack_severity smallint,
    ack_worst smallint,
    ack_sticky boolean,
    cause text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL DEFAULT '',
    ack_who text,
    ack_comment text
);
CREATE UNIQUE INDEX problems_by_task ON problems (task, cause, opened);
CREATE UNIQUE INDEX problems_open_by_task ON problems (task, cause) WHERE closed IS NULL;
CREATE INDEX problems_open ON problems (id) WHERE closed IS NULL;
CREATE INDEX problems_closed ON problems (closed) WHERE closed IS NOT NULL;

CREATE TABLE problem_notes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    problem bigint NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
    at bigint NOT NULL,
    who text NOT NULL,
    action text COLLATE "C" NOT NULL,
    text text NOT NULL
);
CREATE INDEX problem_notes_by_problem ON problem_notes (problem);

-- Problems are found by the names of their tasks, removed ones too.
CREATE INDEX tasks_removed_by_name ON tasks (name) WHERE removed IS NOT NULL;

-- What is wrong now: checks that are HARD and not OK, and other tasks whose latest run failed.
INSERT INTO problems (task, cause, opened, since, state, severity, worst, worst_severity)
SELECT task, cause, opened, opened, state, severity, state, severity FROM (
    SELECT p.task, 'state' AS cause, p.result_at AS opened, s.state, s.severity
    FROM progress p JOIN tasks t ON t.number = p.task
        JOIN (VALUES (1::smallint, 1::smallint), (3, 2), (2, 3)) s (state, severity) ON s.state = p.state
    WHERE t.removed IS NULL AND t.is_check AND p.hard AND p.result_at > -4611686018427387904
    UNION ALL
    SELECT p.task, 'failed', p.ended, 2, 3
    FROM progress p JOIN tasks t ON t.number = p.task
    WHERE t.removed IS NULL AND NOT t.is_check AND p.ended IS NOT NULL
        AND p.outcome IN ('failed', 'killed', 'timeboxed', 'broken', 'lost')
) AS found ORDER BY opened, task;
