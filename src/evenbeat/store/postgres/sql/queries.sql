-- Every statement of the PostgreSQL store, by name. Rows of a batch come as one array per column.


-- Opening

-- name: has_version
-- Reads the catalogue: to_regclass() may answer as of a time before this session waited for a lock.
SELECT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'evenbeat' AND c.relname = 'version'
);

-- name: version_number
SELECT number FROM evenbeat.version;

-- name: lock_migrations
SELECT pg_advisory_xact_lock(hashtextextended('evenbeat migrations', 0));

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS evenbeat;

-- name: create_version
CREATE TABLE IF NOT EXISTS evenbeat.version (number integer NOT NULL);

-- name: forget_version
DELETE FROM evenbeat.version;

-- name: set_version
INSERT INTO evenbeat.version VALUES (%s);

-- name: any_row
SELECT 1 FROM :table LIMIT 1;

-- name: set_up
-- For a new connection.
SELECT set_config(s.name, s.value, false) FROM unnest(%s::text[], %s::text[]) AS s (name, value);

-- name: backend
SELECT pg_backend_pid();

-- name: encoding
SELECT current_setting('server_encoding'), current_setting('server_version_num')::integer;

-- name: missing_days
SELECT to_regclass('evenbeat.plain_runs_' || to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')) IS NULL;

-- name: ensure_days
SELECT ensure_days(%s, %s);


-- Writing

-- name: begin_writing
SELECT begin_writing(%s, %s, %s, %s);

-- name: name_connection
SELECT set_config('application_name', left('evenbeat ' || %s, 60), false);

-- name: was_kept
SELECT was_kept(%s, %s);

-- name: end_backend
-- Ends a connection that this side has lost, but the server has not noticed.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND usename = current_user AND datname = current_database()
    AND starts_with(application_name, 'evenbeat');

-- name: forget_writers
DELETE FROM writers WHERE writer = ANY(%s) OR seen < now() - interval '7 days';

-- name: notify
SELECT pg_notify('evenbeat', %s);

-- name: take_time
SELECT set_config('statement_timeout', '600s', true), set_config('idle_in_transaction_session_timeout', '60s', true);

-- name: next_stamp
UPDATE marks SET stamp = stamp + 1 RETURNING stamp;

-- name: next_settings_stamp
UPDATE marks SET stamp = stamp + 1, settings_stamp = stamp + 1;

-- name: lock_desk
SELECT pg_try_advisory_lock(hashtextextended('evenbeat desk', 0));

-- name: unlock_desk
SELECT pg_advisory_unlock(hashtextextended('evenbeat desk', 0));


-- Tasks

-- name: names_taken
SELECT name FROM tasks WHERE removed IS NULL AND name = ANY(%s) ORDER BY name;

-- name: set_last_problem
SELECT setval(pg_get_serial_sequence('problems', 'id'), greatest(%(last)s::bigint, 1), %(last)s::bigint > 0);

-- name: take_numbers
UPDATE marks SET last_number = last_number + %s RETURNING last_number;

-- name: create_tasks
COPY tasks (number, id, name, owner, version, created, changed, stamp, is_check, is_off, labels, limit_key, definition)
FROM STDIN;

-- name: create_progress
-- For the tasks that were just created.
INSERT INTO progress (task) SELECT generate_series(%s::bigint, %s::bigint);

-- name: note_created
INSERT INTO changes (at, who, action, name, detail)
SELECT created, %s, 'created', name, '' FROM tasks WHERE number BETWEEN %s AND %s ORDER BY number;

-- name: tasks_by_number
SELECT number, id, version, owner, created, changed, definition
FROM tasks WHERE removed IS NULL AND number = ANY(%s) ORDER BY number;

-- name: release_names
-- Tasks may exchange names within one change: first all of them release their names, as if they were removed.
UPDATE tasks SET removed = changed WHERE number = ANY(%s);

-- name: define_tasks
UPDATE tasks
SET name = d.name, owner = coalesce(%s::text, owner), definition = d.definition, is_check = d.is_check, is_off = d.is_off,
    labels = d.labels::text[], limit_key = d.limit_key, version = version + 1, changed = %s, stamp = %s,
    removed = NULL
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::boolean[], %s::boolean[], %s::text[], %s::text[])
    AS d (number, name, definition, is_check, is_off, labels, limit_key)
WHERE tasks.number = d.number;

-- name: removed_running
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM claims c JOIN tasks t ON t.number = c.task WHERE t.removed IS NOT NULL ORDER BY t.number;

-- name: restart_progress
-- What was planned for a task before it was removed does not count when it is restored.
UPDATE progress SET accounted = %s, extra = 4611686018427387904 WHERE task = ANY(%s);

-- name: restart_progress_of_claim
UPDATE claims SET accounted = %s, extra = 4611686018427387904 WHERE task = ANY(%s);

-- name: keep_definitions
-- Of two changes at the same instant, the definition before the first was valid until then.
INSERT INTO past_definitions AS d (task, until, definition, periods)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[])
ON CONFLICT (task, until) DO UPDATE SET periods = coalesce(d.periods, excluded.periods);

-- name: remove_tasks
UPDATE tasks SET removed = %s, stamp = %s WHERE number = ANY(%s);

-- name: find_task
-- A name has precedence over an id. One condition for both would read all tasks.
SELECT number, id, version, owner, created, changed, definition
FROM tasks WHERE number = coalesce(
    (SELECT number FROM tasks WHERE removed IS NULL AND name = %(asked)s),
    (SELECT number FROM tasks WHERE removed IS NULL AND id = %(asked)s)
);

-- name: find_removed
-- Of several removed tasks with this name, the one that was removed last.
SELECT number, id, version, owner, created, changed, definition
FROM tasks WHERE removed IS NOT NULL AND (name = %(asked)s OR id = %(asked)s)
ORDER BY name = %(asked)s DESC, removed DESC, number DESC LIMIT 1;

-- name: entries
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t WHERE t.removed IS NULL AND :filter AND t.name > %s ORDER BY t.name LIMIT %s;

-- name: conditions
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition,
    CASE WHEN p.accounted IS NOT NULL OR c.accounted IS NOT NULL THEN greatest(
        coalesce(c.accounted, p.accounted), (SELECT max(until) FROM past_definitions d WHERE d.task = t.number)
    ) END,
    coalesce(c.extra, p.extra), coalesce(c.extra_kind, p.extra_kind), a.pause_from, a.pause_until,
    coalesce(c.started, c.at),
    p.started, p.ended, p.outcome, p.state, p.hard, p.attempt, p.flapping, p.result_at, p.output
FROM tasks t JOIN progress p ON p.task = t.number LEFT JOIN claims c ON c.task = t.number
    LEFT JOIN pauses a ON a.task = t.number
WHERE t.removed IS NULL AND :filter AND t.name > %s ORDER BY t.name LIMIT %s;

-- name: count
SELECT count(*) FROM tasks t WHERE t.removed IS NULL AND :filter;

-- name: dependents
-- Reads only the tasks that depend on something: the index has no others.
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t WHERE t.removed IS NULL AND strpos(t.definition, '"depends') > 0 AND EXISTS (
    SELECT 1 FROM json_array_elements_text(t.definition::json -> 'depends') d (name) WHERE d.name = ANY(%(names)s)
    UNION ALL
    SELECT 1 FROM json_array_elements_text(t.definition::json -> 'depends_any') d (name) WHERE d.name = ANY(%(names)s)
) ORDER BY t.name;

-- name: followers
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t WHERE t.removed IS NULL AND strpos(t.definition, '"after') > 0 AND EXISTS (
    SELECT 1 FROM json_array_elements_text(t.definition::json -> 'schedule' -> 'after') p (name)
    WHERE p.name = ANY(%(names)s)
    UNION ALL
    SELECT 1 FROM json_array_elements_text(t.definition::json -> 'schedule' -> 'after_failure') p (name)
    WHERE p.name = ANY(%(names)s)
) ORDER BY t.name;

-- name: entries_named
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t WHERE t.removed IS NULL AND t.name = ANY(%s) ORDER BY t.name;

-- name: positions_of
SELECT t.name, t.number, t.version, t.is_check, t.is_off, p.state, p.hard, p.result_at
FROM tasks t JOIN progress p ON p.task = t.number WHERE t.removed IS NULL AND t.name = ANY(%s) ORDER BY t.name;

-- name: entries_in
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t WHERE t.removed IS NULL AND mod(t.number, 256) = ANY(%s) ORDER BY t.number;


-- Periods, settings, audit

-- name: periods
SELECT name, owner, definition FROM periods ORDER BY name;

-- name: set_period
INSERT INTO periods (name, owner, definition) VALUES (%s, %s, %s)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, definition = excluded.definition;

-- name: delete_periods
DELETE FROM periods WHERE name = ANY(%s);

-- name: setting
SELECT value FROM settings WHERE key = %s;

-- name: settings
SELECT key, value FROM settings WHERE starts_with(key, %s) ORDER BY key;

-- name: set_settings
INSERT INTO settings (key, value) SELECT * FROM unnest(%s::text[], %s::text[])
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: begin_settings
-- For a database that this version creates: no version before has run anything that it holds.
INSERT INTO settings (key, value) VALUES ('environment told', '1');

-- name: delete_settings
DELETE FROM settings WHERE key = ANY(%s);

-- name: take_settings
DELETE FROM settings WHERE key = ANY(%s) RETURNING value;

-- name: note
INSERT INTO changes (at, who, action, name, detail, fields)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]);

-- name: changes
SELECT at, who, action, name, detail, fields FROM changes ORDER BY id DESC LIMIT %s;

-- name: changes_of
SELECT at, who, action, name, detail, fields FROM changes WHERE name = %s ORDER BY id DESC LIMIT %s;

-- name: audit
SELECT id, at, who, action, name, detail, fields FROM changes
WHERE id < %(before)s AND at >= %(since)s AND who = coalesce(%(who)s::text, who) ORDER BY id DESC LIMIT %(most)s;

-- name: audit_of
SELECT id, at, who, action, name, detail, fields FROM changes
WHERE name = %(name)s AND id < %(before)s AND at >= %(since)s AND who = coalesce(%(who)s::text, who)
ORDER BY id DESC LIMIT %(most)s;


-- What a node records. Each statement raises its own errors, so that no round trip is needed between them.

-- name: start
UPDATE claims SET started = s.started
FROM unnest(%s::bigint[], %s::bigint[]) AS s (task, started)
WHERE claims.task = s.task;

-- name: stop_runs
UPDATE claims SET stop = s.stop FROM unnest(%s::bigint[], %s::text[]) AS s (task, stop) WHERE claims.task = s.task;

-- name: finish
-- A column whose values are all the same comes as one value, and its array is empty.
WITH ended AS (
    DELETE FROM claims c USING unnest(
        %(task)s::bigint[], %(started)s::bigint[], %(ended)s::bigint[], %(outcome)s::text[], %(status)s::integer[],
        %(output)s::text[], %(last_start)s::bigint[], %(state)s::smallint[], %(hard)s::boolean[],
        %(attempt)s::integer[], %(changes)s::bigint[], %(flapping)s::boolean[], %(result_at)s::bigint[],
        %(extra)s::bigint[], %(extra_kind)s::smallint[], %(notable)s::boolean[]
    ) AS f (
        task, started, ended, outcome, status, output, last_start, state, hard, attempt, changes, flapping, result_at,
        extra, extra_kind, notable
    )
    WHERE c.task = f.task
    RETURNING c.task, c.nominal, c.generation, c.kind, c.at, c.accounted,
        coalesce(f.started, %(same_started)s::bigint) AS started, coalesce(f.ended, %(same_ended)s::bigint) AS ended,
        coalesce(f.outcome, %(same_outcome)s::text) AS outcome, coalesce(f.status, %(same_status)s::integer) AS status,
        coalesce(f.output, %(same_output)s::text) AS output,
        coalesce(f.last_start, %(same_last_start)s::bigint) AS last_start,
        coalesce(f.state, %(same_state)s::smallint) AS state, coalesce(f.hard, %(same_hard)s::boolean) AS hard,
        coalesce(f.attempt, %(same_attempt)s::integer) AS attempt,
        coalesce(f.changes, %(same_changes)s::bigint) AS changes,
        coalesce(f.flapping, %(same_flapping)s::boolean) AS flapping,
        coalesce(f.result_at, %(same_result_at)s::bigint) AS result_at,
        coalesce(f.extra, %(same_extra)s::bigint) AS extra,
        coalesce(f.extra_kind, %(same_extra_kind)s::smallint) AS extra_kind,
        coalesce(f.notable, %(same_notable)s::boolean) AS notable
), learned AS (
    UPDATE progress p
    SET accounted = e.accounted, extra = e.extra, extra_kind = e.extra_kind, last_start = e.last_start,
        started = CASE WHEN e.result_at > e.started THEN p.started ELSE e.started END,
        ended = CASE WHEN e.result_at > e.started THEN p.ended ELSE e.ended END,
        outcome = CASE WHEN e.result_at > e.started THEN p.outcome ELSE e.outcome END,
        output = CASE WHEN e.result_at > e.started THEN p.output ELSE e.output END, state = e.state, hard = e.hard,
        attempt = e.attempt, changes = e.changes, flapping = e.flapping, result_at = e.result_at
    FROM ended e WHERE p.task = e.task
), plain AS (
    INSERT INTO plain_runs (
        task, nominal, generation, kind, claimed, started, ended, outcome, status, state, hard, attempt, output
    )
    SELECT task, nominal, generation, kind, at, started, ended, outcome, status,
        CASE WHEN result_at = started THEN state END, hard, attempt, left(output, :plain_output)
    FROM ended WHERE NOT notable
), notable AS (
    INSERT INTO notable_runs (
        task, nominal, generation, kind, claimed, started, ended, outcome, status, state, hard, attempt, output
    )
    SELECT task, nominal, generation, kind, at, started, ended, outcome, status,
        CASE WHEN result_at = started THEN state END, hard, attempt, output
    FROM ended WHERE notable
)
SELECT refuse('a run of task ' || coalesce(
    (SELECT min(f) FROM unnest(%(task)s::bigint[]) f WHERE NOT EXISTS (SELECT FROM claims c WHERE c.task = f)),
    (SELECT min(f) FROM (SELECT f FROM unnest(%(task)s::bigint[]) f GROUP BY f HAVING count(*) > 1) AS twice), 0
) || ' ended that has no open claim')
WHERE (SELECT count(*) FROM ended) <> cardinality(%(task)s::bigint[]);

-- name: save_cursors
UPDATE progress SET cursor = s.cursor
FROM unnest(%s::bigint[], %s::bytea[]) AS s (task, cursor)
WHERE progress.task = s.task;

-- name: submit
-- A result becomes the latest only if it is newer than all before; others only enter the history.
WITH t AS (
    SELECT * FROM unnest(
        %s::bigint[], %s::bigint[], %s::integer[], %s::smallint[], %s::bigint[], %s::bigint[], %s::bigint[],
        %s::text[], %s::integer[], %s::text[], %s::smallint[], %s::smallint[], %s::boolean[], %s::integer[],
        %s::bigint[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[], %s::smallint[], %s::boolean[]
    ) AS t (
        task, nominal, generation, kind, at, started, ended, outcome, status, output, made, state, hard, attempt,
        changes, flapping, result_at, accounted, extra, extra_kind, notable
    )
), learned AS (
    UPDATE progress p
    SET started = CASE WHEN t.made IS NULL THEN p.started ELSE t.started END,
        ended = CASE WHEN t.made IS NULL THEN p.ended ELSE t.ended END,
        outcome = CASE WHEN t.made IS NULL THEN p.outcome ELSE t.outcome END,
        output = CASE WHEN t.made IS NULL THEN p.output ELSE t.output END,
        state = t.state, hard = t.hard, attempt = t.attempt, changes = t.changes, flapping = t.flapping,
        result_at = t.result_at, accounted = t.accounted, extra = t.extra, extra_kind = t.extra_kind
    FROM t WHERE p.task = t.task RETURNING p.task
), placed AS (
    UPDATE claims c SET accounted = t.accounted, extra = t.extra, extra_kind = t.extra_kind
    FROM t WHERE c.task = t.task
), plain AS (
    INSERT INTO plain_runs (
        task, nominal, generation, kind, claimed, started, ended, outcome, status, state, hard, attempt, output
    )
    SELECT task, nominal, generation, kind, at, started, ended, outcome, status, made, hard, attempt,
        left(output, :plain_output)
    FROM t WHERE NOT notable
), notable AS (
    INSERT INTO notable_runs (
        task, nominal, generation, kind, claimed, started, ended, outcome, status, state, hard, attempt, output
    )
    SELECT task, nominal, generation, kind, at, started, ended, outcome, status, made, hard, attempt, output
    FROM t WHERE notable
)
SELECT refuse('there is no task ' || (SELECT min(task) FROM t WHERE task NOT IN (SELECT task FROM learned)))
WHERE (SELECT count(*) FROM learned) <> (SELECT count(*) FROM t);

-- name: record_progress
WITH s AS (
    SELECT * FROM unnest(
        %s::bigint[], %s::bigint[], %s::bigint[], %s::smallint[], %s::bigint[], %s::bigint[], %s::bigint[],
        %s::bigint[]
    ) AS s (task, accounted, extra, extra_kind, last_start, result_at, pause_from, pause_until)
), stood AS (
    UPDATE progress p
    SET accounted = s.accounted, extra = s.extra, extra_kind = s.extra_kind, last_start = s.last_start,
        result_at = s.result_at
    FROM s WHERE p.task = s.task RETURNING p.task
), placed AS (
    UPDATE claims c SET accounted = s.accounted, extra = s.extra, extra_kind = s.extra_kind
    FROM s WHERE c.task = s.task
), paused AS (
    INSERT INTO pauses (task, pause_from, pause_until)
    SELECT task, pause_from, pause_until FROM s WHERE pause_until > -4611686018427387904
    ON CONFLICT (task) DO UPDATE SET pause_from = excluded.pause_from, pause_until = excluded.pause_until
), unpaused AS (
    DELETE FROM pauses a USING s WHERE a.task = s.task AND s.pause_until = -4611686018427387904
)
SELECT refuse('there is no task ' || (SELECT min(task) FROM s WHERE task NOT IN (SELECT task FROM stood)))
WHERE (SELECT count(*) FROM stood) <> (SELECT count(*) FROM s);

-- name: keep_chain_ends
-- As for `finish`. While no task follows others, nobody asks for ends, and every run has one. A follower that is
-- committed later than this statement begins learns of none before it, as on a single node.
INSERT INTO chain_ends (task, succeeded, nominal, generation, at)
SELECT e.task, coalesce(e.succeeded, %(same_succeeded)s::boolean), coalesce(e.nominal, %(same_nominal)s::bigint),
    coalesce(e.generation, %(same_generation)s::integer), coalesce(e.at, %(same_at)s::bigint)
FROM unnest(
    %(task)s::bigint[], %(succeeded)s::boolean[], %(nominal)s::bigint[], %(generation)s::integer[], %(at)s::bigint[]
) AS e (task, succeeded, nominal, generation, at)
WHERE EXISTS (SELECT FROM tasks WHERE removed IS NULL AND strpos(definition, '"after') > 0)
ON CONFLICT (task, succeeded) DO UPDATE
SET nominal = excluded.nominal, generation = excluded.generation, at = excluded.at;

-- name: keep_chain_uses
INSERT INTO chain_uses (task, used) SELECT * FROM unnest(%s::bigint[], %s::bytea[])
ON CONFLICT (task) DO UPDATE SET used = excluded.used;

-- name: settle_definitions
DELETE FROM past_definitions d USING unnest(%s::bigint[], %s::bigint[]) AS s (task, until)
WHERE d.task = s.task AND d.until <= s.until;

-- name: skip
-- A task that is disabled for a month is one row: extends the newest range of a task if it has the same reason.
WITH s AS (
    SELECT s.*, newest.id FROM unnest(
        %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
        %s::bigint[], %s::smallint[]
    ) AS s (task, first, last, times, reason, at, next_nominal, accounted, extra, extra_kind)
    LEFT JOIN LATERAL (
        SELECT id, next_nominal, reason FROM skips WHERE skips.task = s.task ORDER BY id DESC LIMIT 1
    ) AS newest ON newest.next_nominal = s.first AND newest.reason = s.reason
), extended AS (
    UPDATE skips k SET last = s.last, times = k.times + s.times, at = s.at, next_nominal = s.next_nominal
    FROM s WHERE k.task = s.task AND k.id = s.id
), added AS (
    INSERT INTO skips (task, first, last, times, reason, at, next_nominal)
    SELECT task, first, last, times, reason, at, next_nominal FROM s WHERE id IS NULL
), stood AS (
    UPDATE progress p SET accounted = s.accounted, extra = s.extra, extra_kind = s.extra_kind
    FROM s WHERE p.task = s.task RETURNING p.task
), placed AS (
    UPDATE claims c SET accounted = s.accounted, extra = s.extra, extra_kind = s.extra_kind
    FROM s WHERE c.task = s.task
)
SELECT refuse('there is no task ' || (SELECT min(task) FROM s WHERE task NOT IN (SELECT task FROM stood)))
WHERE (SELECT count(*) FROM stood) <> (SELECT count(*) FROM s);

-- name: refuse
WITH r AS (
    SELECT * FROM unnest(
        %s::bigint[], %s::bigint[], %s::smallint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::smallint[]
    ) AS r (task, due, kind, reason, at, accounted, extra, extra_kind)
), declined AS (
    INSERT INTO skips (task, first, last, times, reason, at, kind)
    SELECT task, due, due, 1, reason, at, kind FROM r
), stood AS (
    UPDATE progress p SET accounted = r.accounted, extra = r.extra, extra_kind = r.extra_kind
    FROM r WHERE p.task = r.task
), placed AS (
    UPDATE claims c SET accounted = r.accounted, extra = r.extra, extra_kind = r.extra_kind
    FROM r WHERE c.task = r.task
)
SELECT refuse('there is no task ' || min(task)) FROM r
WHERE NOT EXISTS (SELECT FROM progress p WHERE p.task = r.task) HAVING count(*) > 0;

-- name: claim
-- As for `finish`. That a task exists is looked up in the index of `tasks`, whose rows rarely change, so that the row
-- itself need not be read.
WITH withdrawn AS MATERIALIZED (
    SELECT t.number AS task FROM unnest(%(task)s::bigint[]) c JOIN tasks t ON t.number = c WHERE t.removed IS NOT NULL
), claimed AS (
    INSERT INTO claims (task, nominal, generation, kind, at, accounted, extra, extra_kind, token)
    SELECT c.task, coalesce(c.nominal, %(same_nominal)s::bigint), coalesce(c.generation, %(same_generation)s::integer),
        coalesce(c.kind, %(same_kind)s::smallint), coalesce(c.at, %(same_at)s::bigint),
        coalesce(c.accounted, %(same_accounted)s::bigint), coalesce(c.extra, %(same_extra)s::bigint),
        coalesce(c.extra_kind, %(same_extra_kind)s::smallint), coalesce(c.token, %(same_token)s::bigint)
    FROM unnest(
        %(task)s::bigint[], %(nominal)s::bigint[], %(generation)s::integer[], %(kind)s::smallint[], %(at)s::bigint[],
        %(accounted)s::bigint[], %(extra)s::bigint[], %(extra_kind)s::smallint[], %(token)s::bigint[]
    ) AS c (task, nominal, generation, kind, at, accounted, extra, extra_kind, token)
    WHERE EXISTS (SELECT FROM tasks t WHERE t.number = c.task) AND c.task NOT IN (SELECT task FROM withdrawn)
    ON CONFLICT DO NOTHING RETURNING task
), contradiction AS (
    SELECT refuse(coalesce(
        (
            SELECT 'there is no task ' || min(c) FROM unnest(%(task)s::bigint[]) c
            WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.number = c)
        ),
        'task ' || coalesce(
            (
                SELECT min(c) FROM unnest(%(task)s::bigint[]) c
                WHERE c NOT IN (SELECT task FROM claimed) AND c NOT IN (SELECT task FROM withdrawn)
            ),
            (SELECT min(c) FROM (SELECT c FROM unnest(%(task)s::bigint[]) c GROUP BY c HAVING count(*) > 1) AS twice)
        ) || ' has an open claim: it must end before the next'
    ))
    WHERE (SELECT count(*) FROM claimed) + (SELECT count(*) FROM withdrawn) <> cardinality(%(task)s::bigint[])
)
SELECT task FROM withdrawn UNION ALL SELECT count(*) FROM contradiction HAVING count(*) > 0;

-- name: lock_problems
-- People change the same problems in any order: those changes and batches wait for each other.
SELECT pg_advisory_xact_lock_shared(hashtextextended('evenbeat problems', 0));

-- name: supersede_problems
-- Closes other problems of the same task and cause. OFFSET 0: the planner must look up the problems of each row, and not
-- read all open ones, which it takes for few ...
UPDATE problems p SET closed = c.at, reason = 'superseded', hold = '', held_since = NULL, changed_by = DEFAULT
FROM unnest(
    %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::smallint[], %s::smallint[], %s::boolean[], %s::text[]
) AS c (task, cause, opened, at, state, severity, is_open, reason)
CROSS JOIN LATERAL (
    SELECT o.id FROM problems o
    WHERE o.task = c.task AND o.cause = c.cause AND o.opened <> c.opened AND o.closed IS NULL OFFSET 0
) AS other
WHERE p.id = other.id AND c.is_open AND (SELECT removed IS NULL FROM tasks WHERE number = c.task);

-- name: change_problems
-- ... changes, closes and reopens known problems.
UPDATE problems p
SET worst = CASE WHEN c.severity > p.worst_severity THEN c.state ELSE p.worst END,
    worst_severity = greatest(p.worst_severity, c.severity),
    closed = CASE WHEN NOT c.is_open THEN c.at END, reason = CASE WHEN c.is_open THEN '' ELSE c.reason END,
    since = CASE WHEN c.is_open AND c.state <> p.state THEN c.at ELSE p.since END,
    state = CASE WHEN c.is_open THEN c.state ELSE p.state END,
    severity = CASE WHEN c.is_open THEN c.severity ELSE p.severity END,
    ack_worst = CASE WHEN c.is_open AND p.ack_worst < c.severity THEN c.severity ELSE p.ack_worst END,
    hold = CASE WHEN c.is_open THEN p.hold ELSE '' END, held_since = CASE WHEN c.is_open THEN p.held_since END,
    changed_by = DEFAULT
FROM unnest(
    %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::smallint[], %s::smallint[], %s::boolean[], %s::text[]
) AS c (task, cause, opened, at, state, severity, is_open, reason)
CROSS JOIN LATERAL (
    SELECT k.id FROM problems k WHERE k.task = c.task AND k.cause = c.cause AND k.opened = c.opened OFFSET 0
) AS known
WHERE p.id = known.id AND (p.closed IS NULL OR c.is_open) AND (SELECT removed IS NULL FROM tasks WHERE number = c.task);

-- name: add_problems
-- ... and adds new ones, in the order of the batch.
INSERT INTO problems (task, cause, opened, since, state, severity, worst, worst_severity, closed, reason)
SELECT c.task, c.cause, c.opened, c.at, c.state, c.severity, c.state, c.severity,
    CASE WHEN NOT c.is_open THEN c.at END, CASE WHEN c.is_open THEN '' ELSE c.reason END
FROM unnest(
    %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::smallint[], %s::smallint[], %s::boolean[], %s::text[]
) WITH ORDINALITY AS c (task, cause, opened, at, state, severity, is_open, reason, row)
WHERE (SELECT removed IS NULL FROM tasks WHERE number = c.task)
    AND NOT EXISTS (SELECT FROM problems p WHERE p.task = c.task AND p.cause = c.cause AND p.opened = c.opened)
ORDER BY c.row;

-- name: hold_problems
UPDATE problems p
SET hold = c.hold, held_since = CASE WHEN c.hold <> '' THEN c.at END, changed_by = DEFAULT
FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::bigint[]) AS c (task, cause, opened, hold, at)
CROSS JOIN LATERAL (
    SELECT k.id FROM problems k
    WHERE k.task = c.task AND k.cause = c.cause AND k.opened = c.opened AND k.closed IS NULL OFFSET 0
) AS known
WHERE p.id = known.id AND p.closed IS NULL AND p.hold <> c.hold
    AND (SELECT removed IS NULL FROM tasks WHERE number = c.task);

-- name: claimed_by
-- Those of these claims that exist, by task and token.
SELECT c.task FROM claims c JOIN unnest(%s::bigint[], %s::bigint[]) AS s (task, token)
    ON c.task = s.task AND c.token = s.token;

-- name: claiming
-- The transactions that are recording now. They may not see commits since their current statement began: a statement
-- locks its tables before it takes its snapshot.
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND relation = 'claims'::regclass;

-- name: any_name_removed
SELECT 1 FROM tasks WHERE removed IS NOT NULL AND name = ANY(%s) LIMIT 1;


-- Problems, and what people write about them

-- name: open_problems
SELECT p.task, p.cause, p.opened, p.state, p.worst, p.hold, coalesce(p.held_since, 0)
FROM problems p JOIN tasks t ON t.number = p.task
WHERE p.closed IS NULL AND t.removed IS NULL AND :filter ORDER BY p.task, p.cause;

-- name: problems
SELECT p.id, p.task, t.name, p.cause, p.opened, p.since,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.state ELSE p.worst END, p.worst,
    coalesce(p.closed, t.removed), CASE WHEN p.closed IS NULL AND t.removed IS NOT NULL THEN 'removed' ELSE p.reason END,
    r.flapping, r.output, t.owner, t.labels,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.hold ELSE '' END,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.held_since END,
    p.ack_at, p.ack_who, p.ack_comment, p.ack_until, p.ack_sticky, p.ack_severity, p.ack_worst
FROM problems p JOIN tasks t ON t.number = p.task
    LEFT JOIN progress r ON r.task = p.task AND coalesce(p.closed, t.removed) IS NULL
WHERE :filter AND p.id < %s ORDER BY p.id DESC LIMIT %s;

-- name: count_problems
SELECT count(*) FROM problems p JOIN tasks t ON t.number = p.task WHERE :filter;

-- name: problem_notes
SELECT at, who, action, text FROM (
    SELECT * FROM problem_notes WHERE problem = ANY(%s) ORDER BY id DESC LIMIT %s
) latest ORDER BY id;

-- name: lock_problems_alone
SELECT pg_advisory_xact_lock(hashtextextended('evenbeat problems', 0));

-- name: acknowledge_problems
UPDATE problems p
SET ack_at = %(at)s, ack_who = %(who)s, ack_comment = %(comment)s, ack_until = %(until)s, ack_sticky = %(sticky)s,
    ack_severity = CASE severity WHEN 0 THEN worst_severity ELSE severity END,
    ack_worst = CASE severity WHEN 0 THEN worst_severity ELSE severity END, changed_by = DEFAULT
WHERE p.id = ANY(%(ids)s) AND p.closed IS NULL AND (SELECT removed IS NULL FROM tasks WHERE number = p.task)
RETURNING p.id;

-- name: unacknowledge_problems
UPDATE problems p
SET ack_at = NULL, ack_who = NULL, ack_comment = NULL, ack_until = NULL, ack_sticky = NULL, ack_severity = NULL,
    ack_worst = NULL, changed_by = DEFAULT
WHERE p.id = ANY(%(ids)s) AND p.closed IS NULL AND p.ack_at IS NOT NULL
    AND (SELECT removed IS NULL FROM tasks WHERE number = p.task)
RETURNING p.id;

-- name: known_problems
-- None of them is forgotten before the transaction ends.
SELECT id FROM problems WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE;

-- name: note_problems
INSERT INTO problem_notes (problem, at, who, action, text)
SELECT problem, %(now)s::bigint, %(who)s::text, %(action)s::text, %(text)s::text
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS n (problem, row) ORDER BY row;

-- name: problem_ids
-- The id of each key that a problem has, by the place of the key. OFFSET 0: the planner must look up each key.
SELECT k.place, known.id
FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) WITH ORDINALITY AS k (task, cause, opened, place)
CROSS JOIN LATERAL (
    SELECT p.id FROM problems p WHERE p.task = k.task AND p.cause = k.cause AND p.opened = k.opened OFFSET 0
) AS known;

-- name: problem_revision
-- Every transaction before the first has ended; every change of tasks up to the second is visible.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, stamp FROM marks;


-- Alerts, and the messages in which they are sent

-- name: lock_contacts
-- Nodes that record alerts of the same contact wait for each other: each sees what the other has recorded.
SELECT pg_advisory_xact_lock(hashtextextended('evenbeat alerts of ' || c.contact, 0)) FROM unnest(%s::text[]) c (contact);

-- name: known_alerts
SELECT problem, channel, version, message FROM alerts WHERE problem = ANY(%s);

-- name: known_messages
SELECT id, state, is_complete FROM messages WHERE id = ANY(%s) ORDER BY id FOR UPDATE;

-- name: put_alerts
INSERT INTO alerts (
    problem, channel, contact, version, sent, is_known, last_sent, waiting, is_reminder, leaves_at, counts_from, held, told_ack,
    message, is_over
)
SELECT * FROM unnest(
    %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::smallint[], %s::boolean[], %s::bigint[], %s::text[],
    %s::boolean[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::boolean[]
)
ON CONFLICT (problem, channel) DO UPDATE
SET contact = excluded.contact, version = excluded.version, sent = excluded.sent, is_known = excluded.is_known, last_sent = excluded.last_sent,
    waiting = excluded.waiting, is_reminder = excluded.is_reminder, leaves_at = excluded.leaves_at,
    counts_from = excluded.counts_from, held = excluded.held, told_ack = excluded.told_ack, message = excluded.message,
    is_over = excluded.is_over;

-- name: add_decisions
INSERT INTO alert_decisions (at, problem, channel, contact, decision, reason, message, item)
SELECT at, problem, channel, contact, decision, reason, message, item
FROM unnest(
    %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[]
) WITH ORDINALITY AS d (at, problem, channel, contact, decision, reason, message, item, row) ORDER BY row;

-- name: add_messages
INSERT INTO messages (
    id, channel, contact, created, items, state, attempts, next_attempt, started_attempt, possible_repetition, ended,
    error, detail, is_complete
)
SELECT * FROM unnest(
    %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::integer[], %s::text[], %s::integer[], %s::bigint[],
    %s::bigint[], %s::boolean[], %s::bigint[], %s::text[], %s::text[], %s::boolean[]
);

-- name: add_documents
INSERT INTO message_documents (message, part, document)
SELECT n.message, (SELECT count(*) FROM message_documents d WHERE d.message = n.message), n.document
FROM unnest(%s::bigint[], %s::bytea[]) AS n (message, document);

-- name: continue_messages
UPDATE messages m SET items = m.items + p.items, is_complete = p.is_last
FROM unnest(%s::bigint[], %s::integer[], %s::boolean[]) AS p (id, items, is_last) WHERE m.id = p.id;

-- name: try_messages
UPDATE messages m
SET attempts = a.attempts, next_attempt = a.next_attempt, started_attempt = a.started_attempt, error = a.error,
    detail = a.detail, possible_repetition = a.possible_repetition
FROM unnest(%s::bigint[], %s::integer[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::boolean[])
    AS a (id, attempts, next_attempt, started_attempt, error, detail, possible_repetition)
WHERE m.id = a.id;

-- name: end_messages
UPDATE messages m
SET ended = e.ended, state = e.state, error = e.error, detail = e.detail, next_attempt = NULL, started_attempt = NULL
FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[]) AS e (id, ended, state, error, detail)
WHERE m.id = e.id;

-- name: reserve_messages
UPDATE last_message SET number = number + %(count)s RETURNING number - %(count)s + 1;

-- name: set_last_message
UPDATE last_message SET number = %s;

-- name: alert_problems
-- One row for each alert, and one for a problem without any.
SELECT p.id, p.task, t.name, p.cause, p.opened, p.since,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.state ELSE p.worst END,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL AND p.severity > 0 THEN p.severity ELSE p.worst_severity END,
    coalesce(p.closed, t.removed), CASE WHEN p.closed IS NULL AND t.removed IS NOT NULL THEN 'removed' ELSE p.reason END,
    r.flapping,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.hold ELSE '' END,
    CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.held_since END,
    p.ack_at, p.ack_who, p.ack_comment, p.ack_until, p.ack_sticky, p.ack_severity, p.ack_worst,
    a.problem, a.channel, a.contact, a.version, a.sent, a.is_known, a.last_sent, a.waiting, a.is_reminder, a.leaves_at,
    a.counts_from, a.held, a.told_ack, a.message, a.is_over
FROM problems p JOIN tasks t ON t.number = p.task
    LEFT JOIN progress r ON r.task = p.task AND coalesce(p.closed, t.removed) IS NULL
    LEFT JOIN alerts a ON a.problem = p.id
WHERE :filter ORDER BY p.id, a.channel;

-- name: alerts
SELECT problem, channel, contact, version, sent, is_known, last_sent, waiting, is_reminder, leaves_at, counts_from, held,
    told_ack, message, is_over
FROM alerts WHERE problem = ANY(%s) ORDER BY channel;

-- name: alert_decisions
SELECT d.id, t.name, d.at, d.problem, d.channel, d.contact, d.decision, d.reason, d.message, d.item
FROM alert_decisions d JOIN problems p ON p.id = d.problem JOIN tasks t ON t.number = p.task
WHERE :filter ORDER BY d.at DESC, d.id DESC LIMIT %s;

-- name: messages
SELECT id, channel, contact, created, items, state, attempts, next_attempt, started_attempt, possible_repetition, ended,
    error, detail, is_complete
FROM messages WHERE :filter ORDER BY id DESC LIMIT %s;

-- name: message_document
SELECT document FROM message_documents WHERE message = ANY(%s) ORDER BY message, part;


-- What a node reads

-- name: progress
-- A removed task is included as long as its run has not ended.
SELECT p.task, coalesce(c.accounted, p.accounted), coalesce(c.extra, p.extra),
    coalesce(c.extra_kind, p.extra_kind),
    CASE WHEN c.kind = 0 AND c.started IS NOT NULL THEN c.started ELSE p.last_start END,
    p.state, p.hard, p.attempt, p.changes, p.flapping, p.result_at,
    c.nominal, coalesce(c.kind, 0), coalesce(c.at, 0), coalesce(c.generation, 0), coalesce(c.token, 0),
    coalesce(c.untaken, false), coalesce(a.pause_from, -4611686018427387904),
    coalesce(a.pause_until, -4611686018427387904), coalesce(c.stop, '')
FROM progress p LEFT JOIN claims c ON c.task = p.task LEFT JOIN pauses a ON a.task = p.task
WHERE coalesce(c.accounted, p.accounted) IS NOT NULL AND :filter
    AND (c.task IS NOT NULL OR p.task NOT IN (SELECT number FROM tasks WHERE removed IS NOT NULL))
ORDER BY p.task;

-- name: past_definitions
SELECT d.task, d.until, d.definition, d.periods
FROM past_definitions d JOIN tasks t ON t.number = d.task WHERE t.removed IS NULL AND :filter ORDER BY d.task, d.until;

-- name: chain_parents
SELECT t.name, t.number, e.succeeded, e.nominal, e.generation, e.at
FROM tasks t LEFT JOIN chain_ends e ON e.task = t.number
WHERE t.removed IS NULL AND t.name = ANY(%s) ORDER BY t.name;

-- name: chain_uses
SELECT task, used FROM chain_uses WHERE task = ANY(%s);

-- name: add_output
-- Should a clock that was set back make two runs look alike, the first one keeps its output.
INSERT INTO outputs (task, claimed, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING;

-- name: whole_output
SELECT data FROM outputs WHERE task = %s AND claimed = %s;

-- name: cursors
SELECT task, cursor FROM progress WHERE cursor IS NOT NULL AND task = ANY(%s);

-- name: keep_returned
INSERT INTO returned (task, claimed, ended, value)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[])
ON CONFLICT (task, claimed) DO UPDATE SET ended = excluded.ended, value = excluded.value;

-- name: returned
SELECT value FROM returned WHERE task = %s AND claimed = %s;

-- name: running
SELECT t.name, t.is_check, c.nominal, c.generation, c.kind, c.at, c.started,
    NULL, NULL, NULL, NULL, false, 0, '', t.number
FROM claims c JOIN tasks t ON t.number = c.task
WHERE c.at < %(before)s ORDER BY c.at DESC LIMIT %(most)s;

-- name: running_of
SELECT t.name, t.is_check, c.nominal, c.generation, c.kind, c.at, c.started,
    NULL, NULL, NULL, NULL, false, 0, '', t.number
FROM claims c JOIN tasks t ON t.number = c.task
WHERE c.task = %(task)s AND c.at < %(before)s LIMIT %(most)s;

-- name: plain_runs
SELECT t.name, t.is_check, r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM (
    SELECT * FROM plain_runs WHERE claimed < %(before)s ORDER BY claimed DESC, id DESC LIMIT %(most)s
) AS r JOIN tasks t ON t.number = r.task ORDER BY r.claimed DESC, r.id DESC;

-- name: notable_runs
SELECT t.name, t.is_check, r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM (
    SELECT * FROM notable_runs WHERE claimed < %(before)s ORDER BY claimed DESC, id DESC LIMIT %(most)s
) AS r JOIN tasks t ON t.number = r.task ORDER BY r.claimed DESC, r.id DESC;

-- name: plain_runs_of
SELECT t.name, t.is_check, r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM (
    SELECT * FROM plain_runs WHERE task = %(task)s AND claimed < %(before)s
    ORDER BY claimed DESC, id DESC LIMIT %(most)s
) AS r JOIN tasks t ON t.number = r.task ORDER BY r.claimed DESC, r.id DESC;

-- name: notable_runs_of
SELECT t.name, t.is_check, r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM (
    SELECT * FROM notable_runs WHERE task = %(task)s AND claimed < %(before)s
    ORDER BY claimed DESC, id DESC LIMIT %(most)s
) AS r JOIN tasks t ON t.number = r.task ORDER BY r.claimed DESC, r.id DESC;

-- name: starts
-- Reads only the indexes by time.
SELECT second, sum(runs)::bigint FROM (
    SELECT claimed / 1000000 AS second, count(*) AS runs FROM plain_runs
    WHERE claimed >= %(since)s AND claimed < %(until)s GROUP BY second
    UNION ALL SELECT claimed / 1000000 AS second, count(*) AS runs FROM notable_runs
    WHERE claimed >= %(since)s AND claimed < %(until)s GROUP BY second
    UNION ALL SELECT at / 1000000, 1 FROM claims WHERE at >= %(since)s AND at < %(until)s
) AS counted GROUP BY second;

-- name: skips
SELECT t.name, s.first, s.last, s.times, s.reason, s.at, s.kind, t.number
FROM skips s JOIN tasks t ON t.number = s.task
WHERE s.at < %(before)s ORDER BY s.at DESC, s.id DESC LIMIT %(most)s;

-- name: skips_of
SELECT t.name, s.first, s.last, s.times, s.reason, s.at, s.kind, t.number
FROM skips s JOIN tasks t ON t.number = s.task
WHERE s.task = %(task)s AND s.at < %(before)s ORDER BY s.at DESC, s.id DESC LIMIT %(most)s;


-- Maintenance

-- name: try_to_prune
-- Only one node prunes at a time.
SELECT pg_try_advisory_xact_lock(hashtextextended('evenbeat prune', 0));

-- name: lock_briefly
SET LOCAL lock_timeout = '200ms';

-- name: days
-- The tables of days, oldest first.
SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = %s::regclass AND c.relname ~ '_[0-9]{8}$' ORDER BY c.relname;

-- name: newest_of_day
SELECT id, ended FROM :day ORDER BY claimed DESC LIMIT 1;

-- name: whole_day
SELECT count(*), coalesce(max(ended), 0) FROM :day;

-- name: drop_day
DROP TABLE :day;

-- name: last_plain_id
SELECT last_value FROM plain_ids;

-- name: prune_plain
-- The oldest runs, as far as they may be deleted.
DELETE FROM plain_runs
WHERE claimed <= (SELECT max(claimed) FROM (SELECT claimed FROM plain_runs ORDER BY claimed LIMIT %(part)s) AS oldest)
    AND (ended < %(cutoff)s OR id <= %(last)s - %(bound)s);

-- name: prune_notable
DELETE FROM notable_runs
WHERE claimed <= (SELECT max(claimed) FROM (SELECT claimed FROM notable_runs ORDER BY claimed LIMIT %(part)s) AS oldest)
    AND ended < %(cutoff)s;

-- name: prune_outputs
-- Of the oldest ones, those whose runs are gone: runs that no part can hold. Of packed ones, `complete` says which go.
DELETE FROM outputs o
WHERE claimed <= (SELECT max(claimed) FROM (SELECT claimed FROM outputs ORDER BY claimed LIMIT %(part)s) AS oldest)
    AND claimed < coalesce(
        (SELECT min(first_claimed) FROM parts WHERE state = 'complete' AND layer IN ('recent', 'runs', 'kept')),
        9223372036854775807
    )
    AND NOT EXISTS (SELECT FROM plain_runs r WHERE r.task = o.task AND r.claimed = o.claimed)
    AND NOT EXISTS (SELECT FROM notable_runs r WHERE r.task = o.task AND r.claimed = o.claimed);

-- name: prune_skips
DELETE FROM skips WHERE (task, id) IN (SELECT task, id FROM skips WHERE at < %(cutoff)s ORDER BY at LIMIT %(part)s);

-- name: prune_changes
DELETE FROM changes WHERE at < %(cutoff)s AND id IN (SELECT id FROM changes ORDER BY id LIMIT %(part)s)
    AND (at < %(audit_cutoff)s OR id <= (SELECT max(id) FROM changes) - %(audit_rows)s);

-- name: prune_problems
-- With their notes, alerts and decisions, as of removed tasks; not while there is something to be sent.
DELETE FROM problems WHERE id IN (
    SELECT p.id FROM problems p WHERE p.closed < %(cutoff)s
        AND NOT EXISTS (SELECT FROM alerts a WHERE a.problem = p.id AND NOT a.is_over)
    UNION ALL
    SELECT p.id FROM tasks t JOIN problems p ON p.task = t.number WHERE t.removed < %(cutoff)s AND p.closed IS NULL
        AND NOT EXISTS (SELECT FROM alerts a WHERE a.problem = p.id AND NOT a.is_over)
    LIMIT %(part)s
);

-- name: prune_decisions
DELETE FROM alert_decisions WHERE id IN (
    SELECT id FROM alert_decisions WHERE at < %(cutoff)s ORDER BY at, id LIMIT %(part)s
);

-- name: prune_returned
DELETE FROM returned WHERE (task, claimed) IN (
    SELECT task, claimed FROM returned WHERE ended < %(cutoff)s ORDER BY ended LIMIT %(part)s
);

-- name: prune_messages
DELETE FROM messages WHERE id IN (SELECT id FROM messages WHERE ended < %(cutoff)s ORDER BY ended LIMIT %(part)s);

-- name: prune_documents
DELETE FROM message_documents WHERE message IN (
    SELECT d.message FROM message_documents d JOIN messages m ON m.id = d.message
    WHERE m.ended < %(documents_cutoff)s LIMIT %(part)s
);

-- name: forgotten
-- Tasks that were removed so long ago that they have no history left, and nothing to be sent.
SELECT number FROM tasks JOIN progress ON task = number
WHERE removed < %(cutoff)s AND coalesce(ended, removed) < %(cutoff)s AND NOT EXISTS (
    SELECT FROM problems p JOIN alerts a ON a.problem = p.id WHERE p.task = tasks.number AND NOT a.is_over
) ORDER BY removed LIMIT %(part)s;

-- name: forget_claims
DELETE FROM claims WHERE task = ANY(%s);

-- name: forget_pauses
DELETE FROM pauses WHERE task = ANY(%s);

-- name: forget_definitions
DELETE FROM past_definitions WHERE task = ANY(%s);

-- name: forget_chain_ends
DELETE FROM chain_ends WHERE task = ANY(%s);

-- name: forget_outputs
DELETE FROM outputs WHERE task = ANY(%s);

-- name: forget_chain_uses
DELETE FROM chain_uses WHERE task = ANY(%s);

-- name: forget_problems
DELETE FROM problems WHERE task = ANY(%s);

-- name: forget_progress
DELETE FROM progress WHERE task = ANY(%s);

-- name: forget_tasks
DELETE FROM tasks WHERE number = ANY(%s);

-- name: prune_requests
DELETE FROM orders WHERE at < clock() - %s;


-- Layers of history

-- name: oldest_plain
SELECT task, claimed, ended, nominal, generation, kind, started, outcome, status, coalesce(state, -1), hard, attempt,
    output, id
FROM plain_runs ORDER BY claimed, id LIMIT %(most)s;

-- name: oldest_notable
SELECT task, claimed, ended, nominal, generation, kind, started, outcome, status, coalesce(state, -1), hard, attempt,
    output, id
FROM notable_runs ORDER BY claimed, id LIMIT %(most)s;

-- name: delete_plain
-- Runs by their ids; they are found by the index by time.
DELETE FROM plain_runs r USING unnest(%(ids)s::bigint[]) AS g (id)
WHERE r.id = g.id AND r.claimed BETWEEN %(first)s AND %(last)s;

-- name: delete_notable
DELETE FROM notable_runs r USING unnest(%(ids)s::bigint[]) AS g (id)
WHERE r.id = g.id AND r.claimed BETWEEN %(first)s AND %(last)s;

-- name: begin_part
INSERT INTO parts (layer, since, is_merged, state) VALUES (%(layer)s, %(since)s, %(is_merged)s, 'begun') RETURNING number;

-- name: add_block
INSERT INTO blocks (part, first_task, last_task, rows, first_claimed, last_claimed, notable, body)
VALUES (%(part)s, %(first_task)s, %(last_task)s, %(rows)s, %(first_claimed)s, %(last_claimed)s, %(notable)s, %(body)s);

-- name: extend_part
-- For blocks that were added.
UPDATE parts
SET rows = rows + %(rows)s, size = size + %(size)s, blocks = blocks + %(blocks)s,
    first_claimed = least(first_claimed, %(first)s),
    last_claimed = greatest(last_claimed, %(last)s)
WHERE number = %(part)s AND state = 'begun';

-- name: complete_part
UPDATE parts SET state = CASE WHEN rows > 0 THEN 'complete' ELSE 'dropped' END, starts = %(starts)s
WHERE number = %(part)s AND state = 'begun';

-- name: drop_part
UPDATE parts SET state = 'dropped' WHERE number = %(part)s AND state = 'complete';

-- name: drop_begun_parts
UPDATE parts SET state = 'dropped' WHERE state = 'begun';

-- name: forget_output
DELETE FROM outputs WHERE task = %(task)s AND claimed = %(claimed)s;

-- name: outputs_between
SELECT task, claimed FROM outputs WHERE claimed BETWEEN %(since)s AND %(until)s ORDER BY claimed, task;

-- name: sweep_blocks
DELETE FROM blocks WHERE id IN (
    SELECT b.id FROM parts p JOIN blocks b ON b.part = p.number
    WHERE p.state = 'dropped' LIMIT %(most)s
);

-- name: sweep_parts
DELETE FROM parts WHERE state = 'dropped' AND NOT EXISTS (SELECT FROM blocks b WHERE b.part = parts.number);

-- name: parts
SELECT number, layer, since, rows, size, first_claimed, last_claimed, is_merged
FROM parts WHERE state = 'complete' AND layer = %(layer)s ORDER BY since, number;

-- name: part_blocks
-- How many blocks a complete part has.
SELECT blocks FROM parts WHERE number = %(part)s AND state = 'complete';

-- name: begun_part
SELECT layer, rows FROM parts WHERE number = %(part)s AND state = 'begun';

-- name: run_parts
SELECT number, layer, since, rows, size, first_claimed, last_claimed, is_merged, starts
FROM parts WHERE state = 'complete' AND layer IN ('recent', 'runs', 'kept')
    AND first_claimed < %(before)s AND last_claimed >= %(since)s;

-- name: blocks_of_part
SELECT id, part, rows, first_claimed, last_claimed, notable FROM blocks WHERE part = %(part)s ORDER BY id;

-- name: blocks_of_task
-- In a part, blocks are in the order of their tasks: those that end with the task, and the one after them. OFFSET 0
-- keeps this a question to each part, which the index answers.
SELECT b.*
FROM parts p CROSS JOIN LATERAL (
    SELECT id, part, rows, first_claimed, last_claimed, notable FROM blocks
    WHERE part = p.number AND last_task BETWEEN %(task)s AND coalesce(
        (SELECT min(n.last_task) FROM blocks n WHERE n.part = p.number AND n.last_task > %(task)s), %(task)s
    ) AND first_task <= %(task)s AND first_claimed < %(before)s AND last_claimed >= %(since)s
    OFFSET 0
) AS b
WHERE p.state = 'complete' AND p.layer IN ('recent', 'runs', 'kept')
    AND p.first_claimed < %(before)s AND p.last_claimed >= %(since)s;

-- name: summary_blocks_of_task
SELECT b.*
FROM parts p CROSS JOIN LATERAL (
    SELECT id, part, rows, first_claimed, last_claimed, notable FROM blocks
    WHERE part = p.number AND last_task BETWEEN %(task)s AND coalesce(
        (SELECT min(n.last_task) FROM blocks n WHERE n.part = p.number AND n.last_task > %(task)s), %(task)s
    ) AND first_task <= %(task)s AND first_claimed < %(until)s AND last_claimed >= %(since)s
    OFFSET 0
) AS b
WHERE p.state = 'complete' AND p.layer = %(layer)s AND p.first_claimed < %(until)s AND p.last_claimed >= %(since)s;

-- name: layer_sizes
SELECT layer, count(*), sum(rows)::bigint, sum(size)::bigint FROM parts WHERE state = 'complete' GROUP BY layer;

-- name: block_bodies
SELECT id, body FROM blocks WHERE id = ANY(%(ids)s);

-- name: tasks_of_runs
SELECT number, name, is_check FROM tasks WHERE number = ANY(%(numbers)s);

-- name: unpacked_runs
-- Counted, as long as that is quick.
SELECT CASE WHEN few.runs < 200000 THEN few.runs ELSE greatest(few.runs, about.runs) END
FROM (
    SELECT (SELECT count(*) FROM (SELECT FROM plain_runs LIMIT 100000) AS p)
        + (SELECT count(*) FROM (SELECT FROM notable_runs LIMIT 100000) AS n) AS runs
) AS few, (
    SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint AS runs
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('plain_runs'::regclass, 'notable_runs'::regclass)
) AS about;

-- name: database_size
-- Of our schema, with its indexes.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'evenbeat' AND c.relkind IN ('r', 'm');

-- name: set_last_part
SELECT setval(pg_get_serial_sequence('parts', 'number'), greatest(%(last)s::bigint, 1), %(last)s::bigint > 0);



-- Leases, partitions and shares

-- name: clock
SELECT clock();

-- name: lock_authority
SELECT pg_advisory_xact_lock(hashtextextended('evenbeat authority', 0));

-- name: next_fence
-- Higher than any fence before, even on a database that has lost its last commits: at least the sixteenths of seconds
-- since 2020 by the clock, and higher than any fence that the asking node has seen, and than that of any lease.
WITH least AS (
    SELECT greatest(
        (clock() - 1577836800000000) / 62500, %(seen)s::bigint + 1, (SELECT max(epoch) + 1 FROM leases)
    ) AS fence
)
INSERT INTO settings AS s (key, value) SELECT 'cluster:fence', fence::text FROM least
ON CONFLICT (key) DO UPDATE
SET value = greatest(s.value::bigint + 1 + %(jump)s, excluded.value::bigint)::text
RETURNING value::bigint;

-- name: timeline
-- The timeline of the server, and the one that nodes knew last: a promoted standby begins a new timeline.
SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8), (SELECT value FROM settings WHERE key = 'cluster:timeline');

-- name: set_timeline
INSERT INTO settings (key, value) VALUES ('cluster:timeline', %s)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: set_quiet_time
INSERT INTO settings (key, value) VALUES ('cluster:quiet until', (clock() + %s)::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: quiet_until
SELECT coalesce(max(value::bigint), 0) FROM settings WHERE key = 'cluster:quiet until';

-- name: has_forgotten
-- Whether a confirmed transaction, or a confirmed renewal of the lease, is missing.
SELECT EXISTS (
    SELECT FROM unnest(%(writers)s::text[], %(numbers)s::bigint[]) AS m (writer, number)
    LEFT JOIN writers w ON w.writer = m.writer WHERE w.recorded IS NULL OR w.recorded < m.number
) OR EXISTS (SELECT FROM leases WHERE node = %(node)s AND epoch = %(epoch)s AND expires < %(expires)s);

-- name: lease_of
SELECT 1 FROM leases WHERE node = %s AND epoch = %s FOR UPDATE;

-- name: may_leave
-- Whether another node stays. No row if the lease is gone.
UPDATE leases SET is_leaving = EXISTS (
    SELECT FROM leases AS other WHERE other.node <> leases.node AND NOT other.is_leaving AND other.expires >= clock()
)
WHERE node = %s AND epoch = %s RETURNING is_leaving;

-- name: drop_lease
DELETE FROM leases WHERE node = %s;

-- name: begin_cluster
-- If no other lease is valid.
UPDATE partitions SET is_new = true
WHERE NOT is_new AND NOT EXISTS (SELECT FROM leases WHERE expires >= clock());

-- name: add_lease
INSERT INTO leases (node, epoch, expires, about) VALUES (%s, %s, clock() + %s, %s);

-- name: renew
UPDATE leases SET expires = clock() + %s, about = %s WHERE node = %s AND epoch = %s RETURNING expires;

-- name: view
SELECT 'clock', '', clock(), 0, NULL::bytea
UNION ALL SELECT 'lease', node, epoch, expires, about FROM leases
UNION ALL SELECT 'partition', holder, partition, 0, NULL FROM partitions WHERE holder IS NOT NULL
UNION ALL SELECT 'share', node, share, 0, convert_to(key, 'UTF8') FROM shares;

-- name: is_lease_expired
SELECT EXISTS (SELECT FROM leases WHERE node = %s AND epoch = %s AND expires < clock());

-- name: revoke_lease
DELETE FROM leases WHERE node = %s AND epoch = %s AND expires < clock() RETURNING node;

-- name: end_recording
-- Ends the connections of a node that holds its lock and does nothing: it was stopped or cut off in a transaction.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = left('evenbeat ' || %s, 60) AND usename = current_user AND datname = current_database()
    AND pid <> pg_backend_pid();

-- name: free_partitions
UPDATE partitions SET holder = NULL WHERE holder = %s;

-- name: drop_shares
DELETE FROM shares WHERE node = %s;

-- name: take
WITH free AS (
    SELECT partition, is_new FROM partitions WHERE partition = ANY(%s) AND holder IS NULL ORDER BY partition FOR UPDATE
)
UPDATE partitions SET holder = %s, is_new = false FROM free WHERE partitions.partition = free.partition
RETURNING partitions.partition, free.is_new;

-- name: release
UPDATE partitions SET holder = NULL WHERE holder = %s AND partition = ANY(%s);

-- name: mark_untaken
UPDATE claims SET untaken = %s WHERE token = ANY(%s);

-- name: lock_share
SELECT pg_advisory_xact_lock(hashtextextended('evenbeat share ' || %s, 0));

-- name: shares
-- Runs in partitions that no node holds at the moment count too: the node that takes them gets their share. In one
-- statement, so that no run is seen in between.
SELECT coalesce(sum(share) FILTER (WHERE node = %(node)s), 0)::bigint,
    coalesce(sum(share) FILTER (WHERE node <> %(node)s), 0)::bigint + (
        SELECT count(*) FROM open_by_key o JOIN partitions p ON p.partition = o.partition
        WHERE p.holder IS NULL AND o.key = %(key)s
    ),
    EXISTS (SELECT FROM settings WHERE key = 'cluster:quiet until' AND value::bigint > clock())
FROM shares WHERE key = %(key)s;

-- name: add_to_share
-- Adds the runs in some partitions to the shares of a node ...
INSERT INTO shares (key, node, share)
SELECT key, %(node)s, count(*) FROM open_by_key WHERE partition = ANY(%(partitions)s) GROUP BY key
ON CONFLICT (key, node) DO UPDATE SET share = shares.share + excluded.share
RETURNING key, share;

-- name: take_from_share
-- ... or takes them off.
UPDATE shares s SET share = greatest(s.share - o.count, 0)
FROM (SELECT key, count(*) FROM open_by_key WHERE partition = ANY(%(partitions)s) GROUP BY key) o
WHERE s.node = %(node)s AND s.key = o.key;

-- name: set_share
INSERT INTO shares (key, node, share) VALUES (%s, %s, %s)
ON CONFLICT (key, node) DO UPDATE SET share = excluded.share;

-- name: drop_share
DELETE FROM shares WHERE key = %s AND node = %s;


-- Changes and requests of other processes

-- name: stamp
SELECT stamp, settings_stamp FROM marks;

-- name: changes_since
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition, t.removed IS NOT NULL
FROM tasks t WHERE t.stamp > %s AND mod(t.number, 256) = ANY(%s) ORDER BY t.stamp, t.number;

-- name: add_request
INSERT INTO orders (task, at, request) VALUES (%s, clock(), %s) RETURNING id;

-- name: has_requests
SELECT EXISTS (SELECT FROM orders WHERE NOT is_taken AND mod(task, 256) = ANY(%s) AND at > clock() - %s);

-- name: take_requests
UPDATE orders SET is_taken = true WHERE NOT is_taken AND mod(task, 256) = ANY(%s) AND at > clock() - %s
RETURNING id, task, request;

-- name: return_request
UPDATE orders SET is_taken = false WHERE id = %s AND reply IS NULL;

-- name: answer
UPDATE orders SET reply = %s, answered = clock() WHERE id = %s AND reply IS NULL;

-- name: is_answered
SELECT EXISTS (SELECT FROM orders WHERE id = %s AND reply IS NOT NULL);

-- name: reply
DELETE FROM orders WHERE id = %s AND reply IS NOT NULL RETURNING reply;
