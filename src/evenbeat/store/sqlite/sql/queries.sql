-- Every statement of the SQLite store, by name. `VALUES :rows` stands for as many rows of parameters as are recorded
-- at once; rows for task 0, which does not exist, fill up the last statement.


-- Tasks

-- name: last_number
-- The largest id ever used by a table.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0);

-- name: indexes_of_names
-- See `sqlite.first_load`.
SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND name IN ('tasks_by_name', 'changes_by_name');

-- name: names_taken
SELECT name FROM tasks WHERE removed IS NULL AND name IN (SELECT value FROM json_each(?)) ORDER BY name;

-- name: create_task
INSERT INTO tasks (number, id, name, owner, version, created, changed, definition)
WITH t (number, id, name, owner, created, definition) AS (VALUES :rows)
SELECT number, id, name, owner, 1, created, created, definition FROM t;

-- name: create_progress
-- For the tasks that were just created.
INSERT INTO progress (task) SELECT number FROM tasks WHERE number > ? ORDER BY number;

-- name: note_created
INSERT INTO changes (at, who, action, name, detail)
SELECT :now, :who, 'created', name, '' FROM tasks WHERE number > :last ORDER BY number;

-- name: task_versions
SELECT number, version, changed FROM tasks WHERE removed IS NULL ORDER BY number;

-- name: tasks_by_number
SELECT number, id, version, owner, created, changed, definition
FROM tasks WHERE removed IS NULL AND number IN (SELECT value FROM json_each(?));

-- name: release_names
-- Tasks may exchange names within one change: first all of them release their names, as if they were removed.
UPDATE tasks SET removed = changed WHERE number = ?;

-- name: define_task
-- Does not touch columns of an index, as most changes do not.
UPDATE tasks SET definition = ?, version = version + 1, changed = ? WHERE number = ?;

-- name: restart_progress
-- What was planned for a task before it was removed does not count when it is restored.
UPDATE progress SET accounted = ?, extra = 4611686018427387904 WHERE task = ?;

-- name: restart_progress_of_claim
UPDATE claims SET accounted = ?, extra = 4611686018427387904 WHERE task = ?;

-- name: keep_definition
-- Of two changes at the same instant, the definition before the first was valid until then.
INSERT INTO past_definitions (task, until, definition, periods) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET periods = coalesce(periods, excluded.periods);

-- name: rename_task
UPDATE tasks SET name = ?, removed = NULL WHERE number = ?;

-- name: give_task
UPDATE tasks SET owner = ? WHERE number = ?;

-- name: removed_running
-- Few claims are open, so this starts from the claims.
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM claims c CROSS JOIN tasks t ON t.number = c.task WHERE t.removed IS NOT NULL ORDER BY t.number;

-- name: restore_task
UPDATE tasks SET owner = ?, definition = ?, version = version + 1, changed = ?, removed = NULL WHERE number = ?;

-- name: remove_task
UPDATE tasks SET removed = ? WHERE number = ?;

-- name: find_task
-- A name has precedence over an id. One condition for both would read all tasks.
SELECT number, id, version, owner, created, changed, definition
FROM tasks WHERE number = coalesce(
    (SELECT number FROM tasks WHERE removed IS NULL AND name = ?1),
    (SELECT number FROM tasks WHERE removed IS NULL AND id = ?1)
);

-- name: find_removed
-- Of several removed tasks with this name, the one that was removed last.
SELECT number, id, version, owner, created, changed, definition
FROM tasks WHERE removed IS NOT NULL AND (name = ?1 OR id = ?1) ORDER BY name = ?1 DESC, removed DESC, number DESC LIMIT 1;

-- name: entries
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t WHERE t.removed IS NULL AND :filter AND t.name > ? ORDER BY t.name LIMIT ?;

-- name: conditions
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition,
    max(
        coalesce(c.accounted, p.accounted),
        coalesce((SELECT max(until) FROM past_definitions d WHERE d.task = t.number), -4611686018427387904)
    ),
    coalesce(c.extra, p.extra), coalesce(c.extra_kind, p.extra_kind), a.pause_from, a.pause_until,
    coalesce(c.started, c.at),
    p.started, p.ended, p.outcome, p.state, p.hard, p.attempt, p.flapping, p.result_at, p.output
FROM tasks t JOIN progress p ON p.task = t.number LEFT JOIN claims c ON c.task = t.number
    LEFT JOIN pauses a ON a.task = t.number
WHERE t.removed IS NULL AND :filter AND t.name > ? ORDER BY t.name LIMIT ?;

-- name: count
SELECT count(*) FROM tasks t WHERE t.removed IS NULL AND :filter;

-- name: dependents
-- Reads only the tasks that depend on something: the index has no others.
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t INDEXED BY tasks_with_parents
WHERE t.removed IS NULL AND instr(t.definition, '"depends') AND EXISTS (
    WITH wanted (name) AS (SELECT value FROM json_each(?1))
    SELECT 1 FROM json_each(t.definition, '$.depends') WHERE value IN wanted
    UNION ALL SELECT 1 FROM json_each(t.definition, '$.depends_any') WHERE value IN wanted
) ORDER BY t.name;

-- name: followers
SELECT t.number, t.id, t.version, t.owner, t.created, t.changed, t.definition
FROM tasks t INDEXED BY tasks_after_others
WHERE t.removed IS NULL AND instr(t.definition, '"after') AND EXISTS (
    WITH wanted (name) AS (SELECT value FROM json_each(?1))
    SELECT 1 FROM json_each(t.definition, '$.schedule.after') WHERE value IN wanted
    UNION ALL SELECT 1 FROM json_each(t.definition, '$.schedule.after_failure') WHERE value IN wanted
) ORDER BY t.name;


-- Periods, settings, audit

-- name: periods
SELECT name, owner, definition FROM periods ORDER BY name;

-- name: set_period
INSERT INTO periods (name, owner, definition) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET owner = excluded.owner, definition = excluded.definition;

-- name: delete_period
DELETE FROM periods WHERE name = ?;

-- name: setting
SELECT value FROM settings WHERE key = ?;

-- name: settings
SELECT key, value FROM settings WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key;

-- name: set_setting
INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: begin_settings
-- For a database that this version creates: no version before has run anything that it holds.
INSERT INTO settings (key, value) VALUES ('environment told', '1');

-- name: delete_setting
DELETE FROM settings WHERE key = ?;

-- name: note
INSERT INTO changes (at, who, action, name, detail, fields) VALUES (?, ?, ?, ?, ?, ?);

-- name: changes
SELECT at, who, action, name, detail, fields FROM changes ORDER BY id DESC LIMIT :most;

-- name: changes_of
SELECT at, who, action, name, detail, fields FROM changes WHERE name = :name ORDER BY id DESC LIMIT :most;

-- name: audit
SELECT id, at, who, action, name, detail, fields FROM changes
WHERE id < :before AND at >= :since AND who = coalesce(:who, who) ORDER BY id DESC LIMIT :most;

-- name: audit_of
SELECT id, at, who, action, name, detail, fields FROM changes
WHERE name = :name AND id < :before AND at >= :since AND who = coalesce(:who, who) ORDER BY id DESC LIMIT :most;


-- What a node records, many rows at once

-- name: record_progress
-- Never inserts a task: see `update_results`. Does not read `tasks`, whose pages would stay in the cache.
INSERT INTO progress (task, accounted, extra, extra_kind, last_start, result_at)
WITH s (task, accounted, extra, extra_kind, last_start, result_at) AS (VALUES :rows)
SELECT s.* FROM s CROSS JOIN progress AS p ON p.task = s.task WHERE true
ON CONFLICT (task) DO UPDATE
SET accounted = excluded.accounted, extra = excluded.extra, extra_kind = excluded.extra_kind,
    last_start = excluded.last_start, result_at = excluded.result_at;

-- name: update_accounted
-- The progress of tasks from now on ...
UPDATE progress SET accounted = s.accounted, extra = s.extra, extra_kind = s.extra_kind
FROM (WITH s (task, accounted, extra, extra_kind) AS (VALUES :rows) SELECT * FROM s) AS s
WHERE progress.task = s.task;

-- name: any_claim
SELECT 1 FROM claims LIMIT 1;

-- name: update_accounted_of_claims
-- ... and of those with an open claim.
UPDATE claims SET accounted = s.accounted, extra = s.extra, extra_kind = s.extra_kind
FROM (WITH s (task, accounted, extra, extra_kind) AS (VALUES :rows) SELECT * FROM s) AS s
WHERE claims.task = s.task;

-- name: skip
-- Adds a range, unless the newest one of the task is extended: see the next statement.
INSERT INTO skips (task, first, last, times, reason, at, next_nominal)
WITH s (task, first, last, times, reason, at, next_nominal) AS (VALUES :rows)
SELECT * FROM s WHERE task <> 0 AND NOT EXISTS (
    SELECT 1 FROM skips AS newest
    WHERE newest.id = (SELECT max(id) FROM skips WHERE skips.task = s.task)
        AND newest.next_nominal = s.first AND newest.reason = s.reason
);

-- name: extend_skip
-- A task that is disabled for a month is one row. A range that was just inserted does not extend itself, as its end is
-- not its beginning.
UPDATE skips SET last = s.last, times = skips.times + s.times, at = s.at, next_nominal = s.next_nominal
FROM (
    WITH s (task, first, last, times, reason, at, next_nominal) AS (VALUES :rows) SELECT * FROM s
) AS s
WHERE skips.id = (SELECT max(id) FROM skips AS newest WHERE newest.task = s.task)
    AND skips.next_nominal = s.first AND skips.reason = s.reason;

-- name: any_pause
SELECT 1 FROM pauses LIMIT 1;

-- name: forget_pauses
DELETE FROM pauses WHERE task IN (SELECT value FROM json_each(?));

-- name: pause
INSERT INTO pauses (task, pause_from, pause_until) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET pause_from = excluded.pause_from, pause_until = excluded.pause_until;

-- name: keep_chain_end
INSERT INTO chain_ends (task, succeeded, nominal, generation, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET nominal = excluded.nominal, generation = excluded.generation, at = excluded.at;

-- name: keep_chain_use
INSERT INTO chain_uses (task, used) VALUES (?, ?) ON CONFLICT DO UPDATE SET used = excluded.used;

-- name: settle_definitions
DELETE FROM past_definitions WHERE task = ? AND until <= ?;

-- name: refuse
INSERT INTO skips (task, first, last, times, reason, at, kind)
WITH r (task, due, kind, reason, at) AS (VALUES :rows)
SELECT task, due, due, 1, reason, at, kind FROM r WHERE task <> 0;

-- name: claim
-- Skips tasks that were removed meanwhile. Their index is small, and mostly empty: see `record_progress`.
INSERT INTO claims (task, nominal, generation, kind, at, accounted, extra, extra_kind)
WITH c (task, nominal, generation, kind, at, accounted, extra, extra_kind) AS (VALUES :rows)
SELECT * FROM c WHERE task <> 0 AND NOT EXISTS (
    SELECT 1 FROM tasks INDEXED BY tasks_removed_by_number WHERE removed IS NOT NULL AND number = c.task
);

-- name: removed_of
-- Those of these tasks that were removed.
SELECT number FROM tasks INDEXED BY tasks_removed_by_number
WHERE removed IS NOT NULL AND number IN (SELECT value FROM json_each(?));

-- name: start
UPDATE claims SET started = s.started
FROM (WITH s (task, started) AS (VALUES :rows) SELECT * FROM s) AS s
WHERE claims.task = s.task;

-- name: stop_runs
UPDATE claims SET stop = ? WHERE task = ?;

-- name: log_runs
INSERT INTO run_log (runs, notable, first_claimed, last_claimed, body) VALUES (?, ?, ?, ?, ?);

-- name: update_results
-- The results of runs that ended, for their tasks. All of these tasks exist: an UPDATE of many rows would do the same,
-- but SQLite would copy all of them first. A newer latest result stays the latest.
INSERT INTO progress (
    task, accounted, started, ended, outcome, output, last_start, state, hard, attempt, changes, flapping, result_at,
    extra, extra_kind
)
WITH l (
    task, accounted, started, ended, outcome, output, last_start, state, hard, attempt, changes, flapping, result_at,
    extra, extra_kind
) AS (VALUES :rows)
SELECT * FROM l WHERE task <> 0
ON CONFLICT (task) DO UPDATE
SET started = iif(excluded.result_at > excluded.started, started, excluded.started),
    ended = iif(excluded.result_at > excluded.started, ended, excluded.ended),
    outcome = iif(excluded.result_at > excluded.started, outcome, excluded.outcome),
    output = iif(excluded.result_at > excluded.started, output, excluded.output),
    last_start = excluded.last_start, state = excluded.state, hard = excluded.hard, attempt = excluded.attempt,
    changes = excluded.changes, flapping = excluded.flapping, result_at = excluded.result_at, extra = excluded.extra,
    extra_kind = excluded.extra_kind, accounted = excluded.accounted;

-- name: save_cursors
UPDATE progress SET cursor = s.cursor
FROM (WITH s (task, cursor) AS (VALUES :rows) SELECT * FROM s) AS s
WHERE progress.task = s.task;

-- name: settle
-- The claims of runs that ended.
DELETE FROM claims WHERE task IN (WITH f (task) AS (VALUES :rows) SELECT * FROM f)
RETURNING task, nominal, generation, kind, at, accounted;

-- name: update_submitted_results
-- As `update_results`; a result becomes the latest only if it is newer than all before (?2).
UPDATE progress
SET started = iif(?2, ?3, started), ended = iif(?2, ?4, ended), outcome = iif(?2, ?5, outcome),
    output = iif(?2, ?6, output), state = ?7, hard = ?8, attempt = ?9, changes = ?10, flapping = ?11, result_at = ?12,
    accounted = ?13, extra = ?14, extra_kind = ?15
WHERE task = ?1;

-- name: open_claims
-- Those of these tasks that have an open claim, and those that exist: to explain what is wrong with a batch.
SELECT task, 1 FROM claims WHERE task IN (SELECT value FROM json_each(?1))
UNION ALL SELECT task, 0 FROM progress WHERE task IN (SELECT value FROM json_each(?1));

-- name: present_tasks
-- Those of these tasks that exist and were not removed.
SELECT p.task FROM progress p WHERE p.task IN (SELECT value FROM json_each(?)) AND NOT EXISTS (
    SELECT 1 FROM tasks INDEXED BY tasks_removed_by_number WHERE removed IS NOT NULL AND number = p.task
);

-- name: supersede_problems
-- Closes other problems of the same task and cause ...
UPDATE problems SET closed = c.at, reason = 'superseded', hold = '', held_since = NULL
FROM (
    WITH c (task, cause, opened, at, state, severity, is_open, reason) AS (VALUES :rows) SELECT * FROM c
) AS c
WHERE c.is_open AND problems.task = c.task AND problems.cause = c.cause AND problems.opened <> c.opened
    AND problems.closed IS NULL;

-- name: change_problems
-- ... changes, closes and reopens known problems. Of one that is not acknowledged, max() of NULL stays NULL.
UPDATE problems
SET worst = iif(c.severity > worst_severity, c.state, worst), worst_severity = max(worst_severity, c.severity),
    closed = iif(c.is_open, NULL, c.at), reason = iif(c.is_open, '', c.reason),
    since = iif(c.is_open AND c.state <> problems.state, c.at, since),
    state = iif(c.is_open, c.state, problems.state), severity = iif(c.is_open, c.severity, problems.severity),
    ack_worst = iif(c.is_open, max(ack_worst, c.severity), ack_worst),
    hold = iif(c.is_open, hold, ''), held_since = iif(c.is_open, held_since, NULL)
FROM (
    WITH c (task, cause, opened, at, state, severity, is_open, reason) AS (VALUES :rows) SELECT * FROM c
) AS c
WHERE problems.task = c.task AND problems.cause = c.cause AND problems.opened = c.opened
    AND (problems.closed IS NULL OR c.is_open);

-- name: add_problems
-- ... and adds new ones.
INSERT INTO problems (task, cause, opened, since, state, severity, worst, worst_severity, closed, reason)
WITH c (task, cause, opened, at, state, severity, is_open, reason) AS (VALUES :rows)
SELECT task, cause, opened, at, state, severity, state, severity, iif(is_open, NULL, at), iif(is_open, '', reason)
FROM c WHERE task <> 0 AND NOT EXISTS (
    SELECT 1 FROM problems p WHERE p.task = c.task AND p.cause = c.cause AND p.opened = c.opened
);

-- name: hold_problems
UPDATE problems SET hold = c.hold, held_since = iif(c.hold = '', NULL, c.at)
FROM (
    WITH c (task, cause, opened, hold, at) AS (VALUES :rows) SELECT * FROM c
) AS c
WHERE problems.task = c.task AND problems.cause = c.cause AND problems.opened = c.opened AND problems.closed IS NULL
    AND problems.hold <> c.hold;


-- Problems, and what people write about them

-- name: open_problems
SELECT p.task, p.cause, p.opened, p.state, p.worst, p.hold, coalesce(p.held_since, 0)
FROM problems p JOIN tasks t ON t.number = p.task
WHERE p.closed IS NULL AND t.removed IS NULL ORDER BY p.task, p.cause;

-- name: problems
SELECT p.id, p.task, t.name, p.cause, p.opened, p.since, iif(coalesce(p.closed, t.removed) IS NULL, p.state, p.worst),
    p.worst, coalesce(p.closed, t.removed), iif(p.closed IS NULL AND t.removed IS NOT NULL, 'removed', p.reason),
    r.flapping, r.output, t.owner, t.definition -> '$.labels',
    iif(coalesce(p.closed, t.removed) IS NULL, p.hold, ''),
    iif(coalesce(p.closed, t.removed) IS NULL, p.held_since, NULL),
    p.ack_at, p.ack_who, p.ack_comment, p.ack_until, p.ack_sticky, p.ack_severity, p.ack_worst
FROM :problems CROSS JOIN tasks t ON t.number = p.task
    LEFT JOIN progress r ON r.task = iif(coalesce(p.closed, t.removed) IS NULL, p.task, 0)
WHERE :filter AND p.id < ? ORDER BY p.id DESC LIMIT ?;

-- name: count_problems
SELECT count(*) FROM :problems CROSS JOIN tasks t ON t.number = p.task WHERE :filter;

-- name: problem_notes
SELECT at, who, action, text FROM (
    SELECT * FROM problem_notes WHERE problem IN (SELECT value FROM json_each(?)) ORDER BY id DESC LIMIT ?
) ORDER BY id;

-- name: acknowledge_problems
UPDATE problems
SET ack_at = :at, ack_who = :who, ack_comment = :comment, ack_until = :until, ack_sticky = :sticky,
    ack_severity = iif(severity = 0, worst_severity, severity), ack_worst = iif(severity = 0, worst_severity, severity)
WHERE id IN (SELECT value FROM json_each(:ids)) AND closed IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_removed_by_number WHERE removed IS NOT NULL AND number = problems.task
    )
RETURNING id;

-- name: unacknowledge_problems
UPDATE problems
SET ack_at = NULL, ack_who = NULL, ack_comment = NULL, ack_until = NULL, ack_sticky = NULL, ack_severity = NULL,
    ack_worst = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND closed IS NULL AND ack_at IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_removed_by_number WHERE removed IS NOT NULL AND number = problems.task
    )
RETURNING id;

-- name: known_problems
SELECT id FROM problems WHERE id IN (SELECT value FROM json_each(?));

-- name: note_problems
INSERT INTO problem_notes (problem, at, who, action, text) VALUES (?, ?, ?, ?, ?);

-- name: problem_ids
SELECT k.key, p.id FROM json_each(?) k CROSS JOIN problems p INDEXED BY problems_by_task
    ON p.task = k.value ->> 0 AND p.cause = k.value ->> 1 AND p.opened = k.value ->> 2;


-- Alerts, and the messages in which they are sent

-- name: known_alerts
SELECT problem, channel, version, message FROM alerts WHERE problem IN (SELECT value FROM json_each(?));

-- name: known_messages
SELECT id, state, is_complete FROM messages WHERE id IN (SELECT value FROM json_each(?));

-- name: put_alerts
-- Rows of problem 0, which does not exist, are left out.
INSERT INTO alerts (
    problem, channel, contact, version, sent, is_known, last_sent, waiting, is_reminder, leaves_at, counts_from, held, told_ack,
    message, is_over
)
WITH a (
    problem, channel, contact, version, sent, is_known, last_sent, waiting, is_reminder, leaves_at, counts_from, held, told_ack,
    message, is_over
) AS (VALUES :rows)
SELECT * FROM a WHERE problem <> 0
ON CONFLICT (problem, channel) DO UPDATE
SET contact = excluded.contact, version = excluded.version, sent = excluded.sent, is_known = excluded.is_known, last_sent = excluded.last_sent,
    waiting = excluded.waiting, is_reminder = excluded.is_reminder, leaves_at = excluded.leaves_at,
    counts_from = excluded.counts_from, held = excluded.held, told_ack = excluded.told_ack, message = excluded.message,
    is_over = excluded.is_over;

-- name: add_decisions
INSERT INTO alert_decisions (at, problem, channel, contact, decision, reason, message, item)
WITH d (at, problem, channel, contact, decision, reason, message, item) AS (VALUES :rows)
SELECT * FROM d WHERE problem <> 0;

-- name: add_message
INSERT INTO messages (
    id, channel, contact, created, items, state, attempts, next_attempt, started_attempt, possible_repetition, ended,
    error, detail, is_complete
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_document
INSERT INTO message_documents (message, part, document)
SELECT ?1, count(*), ?2 FROM message_documents WHERE message = ?1;

-- name: continue_message
UPDATE messages SET items = items + ?2, is_complete = ?3 WHERE id = ?1;

-- name: try_message
UPDATE messages
SET attempts = ?2, next_attempt = ?3, started_attempt = ?4, error = ?5, detail = ?6, possible_repetition = ?7
WHERE id = ?1;

-- name: end_message
UPDATE messages SET ended = ?2, state = ?3, error = ?4, detail = ?5, next_attempt = NULL, started_attempt = NULL
WHERE id = ?1;

-- name: reserve_messages
UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'messages' RETURNING seq - ?1 + 1;

-- name: alert_problems
-- One row for each alert, and one for a problem without any.
SELECT p.id, p.task, t.name, p.cause, p.opened, p.since,
    iif(coalesce(p.closed, t.removed) IS NULL, p.state, p.worst),
    iif(coalesce(p.closed, t.removed) IS NULL AND p.severity > 0, p.severity, p.worst_severity),
    coalesce(p.closed, t.removed), iif(p.closed IS NULL AND t.removed IS NOT NULL, 'removed', p.reason), r.flapping,
    iif(coalesce(p.closed, t.removed) IS NULL, p.hold, ''),
    iif(coalesce(p.closed, t.removed) IS NULL, p.held_since, NULL),
    p.ack_at, p.ack_who, p.ack_comment, p.ack_until, p.ack_sticky, p.ack_severity, p.ack_worst,
    a.problem, a.channel, a.contact, a.version, a.sent, a.is_known, a.last_sent, a.waiting, a.is_reminder, a.leaves_at,
    a.counts_from, a.held, a.told_ack, a.message, a.is_over
FROM problems p CROSS JOIN tasks t ON t.number = p.task
    LEFT JOIN progress r ON r.task = iif(coalesce(p.closed, t.removed) IS NULL, p.task, 0)
    LEFT JOIN alerts a ON a.problem = p.id
WHERE :filter ORDER BY p.id, a.channel;

-- name: alerts
SELECT problem, channel, contact, version, sent, is_known, last_sent, waiting, is_reminder, leaves_at, counts_from, held,
    told_ack, message, is_over
FROM alerts WHERE problem IN (SELECT value FROM json_each(?)) ORDER BY channel;

-- name: alert_decisions
SELECT d.id, t.name, d.at, d.problem, d.channel, d.contact, d.decision, d.reason, d.message, d.item
FROM :decisions CROSS JOIN problems p ON p.id = d.problem CROSS JOIN tasks t ON t.number = p.task
WHERE :filter ORDER BY d.at DESC, d.id DESC LIMIT ?;

-- name: messages
SELECT id, channel, contact, created, items, state, attempts, next_attempt, started_attempt, possible_repetition, ended,
    error, detail, is_complete
FROM :messages WHERE :filter ORDER BY id DESC LIMIT ?;

-- name: message_document
SELECT document FROM message_documents WHERE message IN (SELECT value FROM json_each(?)) ORDER BY message, part;


-- What a node reads

-- name: add_output
-- Should a clock that was set back make two runs look alike, the first one keeps its output.
INSERT INTO outputs (task, claimed, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: progress
-- A removed task is included as long as its run has not ended.
SELECT p.task, coalesce(c.accounted, p.accounted), coalesce(c.extra, p.extra),
    coalesce(c.extra_kind, p.extra_kind), iif(c.kind = 0 AND c.started IS NOT NULL, c.started, p.last_start),
    p.state, p.hard, p.attempt, p.changes, p.flapping, p.result_at,
    c.nominal, coalesce(c.kind, 0), coalesce(c.at, 0), coalesce(c.generation, 0), 0, 0, a.pause_from, a.pause_until,
    coalesce(c.stop, '')
FROM progress p LEFT JOIN claims c ON c.task = p.task LEFT JOIN pauses a ON a.task = p.task
WHERE :filter AND coalesce(c.accounted, p.accounted) IS NOT NULL
    AND (c.task IS NOT NULL OR p.task NOT IN (SELECT number FROM tasks WHERE removed IS NOT NULL)) ORDER BY p.task;

-- name: plain_progress
-- What there is of `progress` without open claims and pauses; of removed tasks too. All columns are whole numbers.
SELECT task, accounted, extra, extra_kind, last_start, state, hard, attempt, changes, flapping, result_at
FROM progress
WHERE accounted IS NOT NULL AND task NOT IN (SELECT task FROM claims) AND task NOT IN (SELECT task FROM pauses)
ORDER BY task;

-- name: past_definitions
SELECT d.task, d.until, d.definition, d.periods
FROM past_definitions d JOIN tasks t ON t.number = d.task WHERE t.removed IS NULL ORDER BY d.task, d.until;

-- name: cursors
SELECT task, cursor FROM progress WHERE cursor IS NOT NULL AND task IN (SELECT value FROM json_each(?));

-- name: keep_returned
INSERT OR REPLACE INTO returned (task, claimed, ended, value) VALUES (?, ?, ?, ?);

-- name: returned
SELECT value FROM returned WHERE task = ? AND claimed = ?;

-- name: chain_parents
SELECT t.name, t.number, e.succeeded, e.nominal, e.generation, e.at
FROM tasks t LEFT JOIN chain_ends e ON e.task = t.number
WHERE t.removed IS NULL AND t.name IN (SELECT value FROM json_each(?)) ORDER BY t.name;

-- name: chain_uses
SELECT task, used FROM chain_uses WHERE task IN (SELECT value FROM json_each(?));

-- name: whole_output
SELECT data FROM outputs WHERE task = ? AND claimed = ?;

-- name: running
SELECT t.name, t.definition ->> 'check', c.nominal, c.generation, c.kind, c.at, c.started,
    NULL, NULL, NULL, NULL, 0, 0, '', t.number
FROM claims c JOIN tasks t ON t.number = c.task
WHERE c.at < :before AND (:task IS NULL OR c.task = :task) ORDER BY c.at DESC LIMIT :most;

-- name: plain_runs
SELECT t.name, t.definition ->> 'check', r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM plain_runs r JOIN tasks t ON t.number = r.task
WHERE r.claimed < :before ORDER BY r.claimed DESC, r.id DESC LIMIT :most;

-- name: notable_runs
SELECT t.name, t.definition ->> 'check', r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM notable_runs r JOIN tasks t ON t.number = r.task
WHERE r.claimed < :before ORDER BY r.claimed DESC, r.id DESC LIMIT :most;

-- name: plain_runs_of
-- Follows the chain, no further than needed.
WITH RECURSIVE chain (id) AS (
    SELECT newest_plain FROM progress WHERE task = :task
    UNION ALL SELECT r.previous FROM chain CROSS JOIN plain_runs r ON r.id = chain.id
)
SELECT t.name, t.definition ->> 'check', r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM chain CROSS JOIN plain_runs r ON r.id = chain.id CROSS JOIN tasks t ON t.number = r.task
WHERE r.claimed < :before LIMIT :most;

-- name: notable_runs_of
WITH RECURSIVE chain (id) AS (
    SELECT newest_notable FROM progress WHERE task = :task
    UNION ALL SELECT r.previous FROM chain CROSS JOIN notable_runs r ON r.id = chain.id
)
SELECT t.name, t.definition ->> 'check', r.nominal, r.generation, r.kind, r.claimed, r.started,
    r.ended, r.outcome, r.status, r.state, r.hard, r.attempt, r.output, t.number
FROM chain CROSS JOIN notable_runs r ON r.id = chain.id CROSS JOIN tasks t ON t.number = r.task
WHERE r.claimed < :before LIMIT :most;

-- name: starts
-- Reads only the indexes by time.
SELECT second, sum(runs) FROM (
    SELECT claimed / 1000000 AS second, count(*) AS runs FROM plain_runs
    WHERE claimed >= :since AND claimed < :until GROUP BY second
    UNION ALL SELECT claimed / 1000000 AS second, count(*) AS runs FROM notable_runs
    WHERE claimed >= :since AND claimed < :until GROUP BY second
    UNION ALL SELECT at / 1000000, 1 FROM claims WHERE at >= :since AND at < :until
) GROUP BY second;

-- name: skips
SELECT t.name, s.first, s.last, s.times, s.reason, s.at, s.kind, t.number
FROM skips s JOIN tasks t ON t.number = s.task
WHERE s.at < :before ORDER BY s.at DESC, s.id DESC LIMIT :most;

-- name: skips_of
SELECT t.name, s.first, s.last, s.times, s.reason, s.at, s.kind, t.number
FROM skips s JOIN tasks t ON t.number = s.task
WHERE s.task = :task AND s.at < :before ORDER BY s.at DESC, s.id DESC LIMIT :most;


-- Maintenance: the oldest `part` rows of each table, as far as they may be deleted

-- name: prune_plain
-- Only up to the first run that must stay, so that no chain gets a hole if clocks were set back.
WITH oldest (id, ended) AS (SELECT id, ended FROM plain_runs ORDER BY id LIMIT :part)
DELETE FROM plain_runs WHERE id IN (SELECT id FROM oldest) AND id < coalesce(
    (
        SELECT min(id) FROM oldest
        WHERE ended >= :cutoff AND id > (SELECT max(id) FROM plain_runs) - :bound
    ),
    9223372036854775807
);

-- name: prune_notable
WITH oldest (id, ended) AS (SELECT id, ended FROM notable_runs ORDER BY id LIMIT :part)
DELETE FROM notable_runs WHERE id IN (SELECT id FROM oldest)
    AND id < coalesce((SELECT min(id) FROM oldest WHERE ended >= :cutoff), 9223372036854775807);

-- name: prune_outputs
-- Of the oldest ones, those whose runs are gone: runs that no part and no record of the log can hold. `complete` says
-- which of packed runs go, and `prune` which of logged ones.
DELETE FROM outputs
WHERE id IN (
    SELECT id FROM outputs WHERE claimed < min(
        coalesce(
            (SELECT min(first_claimed) FROM parts WHERE state = 'complete' AND layer IN ('recent', 'runs', 'kept')),
            9223372036854775807
        ),
        coalesce((SELECT min(first_claimed) FROM run_log), 9223372036854775807)
    ) ORDER BY claimed LIMIT :part
) AND NOT EXISTS (SELECT 1 FROM plain_runs r WHERE r.claimed = outputs.claimed AND r.task = outputs.task)
    AND NOT EXISTS (SELECT 1 FROM notable_runs r WHERE r.claimed = outputs.claimed AND r.task = outputs.task);

-- name: logged_plain_runs
SELECT coalesce(sum(runs - notable), 0) FROM run_log;

-- name: oldest_records
SELECT id, runs, first_claimed, last_claimed, notable, body FROM run_log ORDER BY id;

-- name: change_record
UPDATE run_log SET runs = ?, notable = ?, first_claimed = ?, last_claimed = ?, body = ? WHERE id = ?;

-- name: delete_records
DELETE FROM run_log WHERE id IN (SELECT value FROM json_each(?));

-- name: prune_skips
DELETE FROM skips WHERE id IN (SELECT id FROM skips WHERE at < :cutoff ORDER BY at LIMIT :part);

-- name: prune_changes
DELETE FROM changes WHERE id IN (SELECT id FROM changes ORDER BY id LIMIT :part) AND at < :cutoff
    AND (at < :audit_cutoff OR id <= (SELECT max(id) FROM changes) - :audit_rows);

-- name: prune_problems
-- With their notes, alerts and decisions, as of removed tasks; not while there is something to be sent.
DELETE FROM problems WHERE id IN (
    SELECT p.id FROM problems p WHERE p.closed < :cutoff
        AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.problem = p.id AND NOT a.is_over)
    UNION ALL
    SELECT p.id FROM tasks t JOIN problems p ON p.task = t.number WHERE t.removed < :cutoff AND p.closed IS NULL
        AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.problem = p.id AND NOT a.is_over)
    LIMIT :part
);

-- name: prune_decisions
DELETE FROM alert_decisions WHERE id IN (
    SELECT id FROM alert_decisions INDEXED BY alert_decisions_by_time WHERE at < :cutoff LIMIT :part
);

-- name: prune_returned
DELETE FROM returned WHERE (task, claimed) IN (
    SELECT task, claimed FROM returned INDEXED BY returned_by_time WHERE ended < :cutoff LIMIT :part
);

-- name: prune_messages
DELETE FROM messages WHERE id IN (SELECT id FROM messages WHERE ended < :cutoff LIMIT :part);

-- name: prune_documents
DELETE FROM message_documents WHERE message IN (
    SELECT d.message FROM message_documents d CROSS JOIN messages m ON m.id = d.message
    WHERE m.ended < :documents_cutoff LIMIT :part
);

-- name: forgotten
-- Tasks that were removed so long ago that they have no history left, and nothing to be sent.
SELECT number FROM tasks JOIN progress ON task = number
WHERE removed < :cutoff AND coalesce(ended, removed) < :cutoff AND NOT EXISTS (
    SELECT 1 FROM problems p JOIN alerts a ON a.problem = p.id WHERE p.task = tasks.number AND NOT a.is_over
) ORDER BY removed LIMIT :part;

-- name: forget_claim
DELETE FROM claims WHERE task = ?;

-- name: forget_pause
DELETE FROM pauses WHERE task = ?;

-- name: forget_definitions
DELETE FROM past_definitions WHERE task = ?;

-- name: forget_chain_ends
DELETE FROM chain_ends WHERE task = ?;

-- name: forget_chain_use
DELETE FROM chain_uses WHERE task = ?;

-- name: forget_problems
DELETE FROM problems WHERE task = ?;

-- name: forget_progress
DELETE FROM progress WHERE task = ?;

-- name: forget_task
DELETE FROM tasks WHERE number = ?;

-- name: forget_outputs
DELETE FROM outputs WHERE task = ?;


-- Layers of history

-- name: oldest_plain
SELECT task, claimed, ended, nominal, generation, kind, started, outcome, status, coalesce(state, -1), hard, attempt,
    output, id
FROM plain_runs ORDER BY id LIMIT :most;

-- name: oldest_notable
SELECT task, claimed, ended, nominal, generation, kind, started, outcome, status, coalesce(state, -1), hard, attempt,
    output, id
FROM notable_runs ORDER BY id LIMIT :most;

-- name: delete_plain
DELETE FROM plain_runs WHERE id <= :last;

-- name: delete_notable
DELETE FROM notable_runs WHERE id <= :last;

-- name: records
-- The records of the log with runs that were claimed from `since` to before `before`.
SELECT id, 0, runs, first_claimed, last_claimed, notable FROM run_log
WHERE first_claimed < :before AND last_claimed >= :since;

-- name: record_body
SELECT body FROM run_log WHERE id = :id;

-- name: begin_part
INSERT INTO parts (layer, since, is_merged, state) VALUES (:layer, :since, :is_merged, 'begun') RETURNING number;

-- name: add_block
INSERT INTO blocks (part, first_task, last_task, rows, first_claimed, last_claimed, notable, body)
VALUES (:part, :first_task, :last_task, :rows, :first_claimed, :last_claimed, :notable, :body);

-- name: extend_part
-- For blocks that were added.
UPDATE parts
SET rows = rows + :rows, size = size + :size, blocks = blocks + :blocks,
    first_claimed = min(coalesce(first_claimed, :first), :first),
    last_claimed = max(coalesce(last_claimed, :last), :last)
WHERE number = :part AND state = 'begun';

-- name: complete_part
UPDATE parts SET state = iif(rows > 0, 'complete', 'dropped'), starts = :starts
WHERE number = :part AND state = 'begun';

-- name: drop_part
UPDATE parts SET state = 'dropped' WHERE number = :part AND state = 'complete';

-- name: drop_begun_parts
UPDATE parts SET state = 'dropped' WHERE state = 'begun';

-- name: forget_output
DELETE FROM outputs WHERE task = :task AND claimed = :claimed;

-- name: outputs_between
SELECT task, claimed FROM outputs WHERE claimed BETWEEN :since AND :until ORDER BY claimed, task;

-- name: sweep_blocks
DELETE FROM blocks WHERE id IN (
    SELECT b.id FROM parts p CROSS JOIN blocks b ON b.part = p.number
    WHERE p.state = 'dropped' LIMIT :most
);

-- name: sweep_parts
DELETE FROM parts WHERE state = 'dropped' AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.part = parts.number);

-- name: parts
SELECT number, layer, since, rows, size, first_claimed, last_claimed, is_merged
FROM parts WHERE state = 'complete' AND layer = :layer ORDER BY since, number;

-- name: part_blocks
-- How many blocks a complete part has.
SELECT blocks FROM parts WHERE number = :part AND state = 'complete';

-- name: begun_part
SELECT layer, rows FROM parts WHERE number = :part AND state = 'begun';

-- name: run_parts
SELECT number, layer, since, rows, size, first_claimed, last_claimed, is_merged, starts
FROM parts WHERE state = 'complete' AND layer IN ('recent', 'runs', 'kept')
    AND first_claimed < :before AND last_claimed >= :since;

-- name: blocks_of_part
SELECT id, part, rows, first_claimed, last_claimed, notable FROM blocks WHERE part = :part ORDER BY id;

-- name: blocks_of_task
-- In a part, blocks are in the order of their tasks: those that end with the task, and the one after them.
SELECT b.id, b.part, b.rows, b.first_claimed, b.last_claimed, b.notable
FROM parts p CROSS JOIN blocks b ON b.part = p.number
WHERE p.state = 'complete' AND p.layer IN ('recent', 'runs', 'kept')
    AND p.first_claimed < :before AND p.last_claimed >= :since
    AND b.last_task BETWEEN :task
        AND coalesce((SELECT min(n.last_task) FROM blocks n WHERE n.part = p.number AND n.last_task > :task), :task)
    AND b.first_task <= :task AND b.first_claimed < :before AND b.last_claimed >= :since;

-- name: summary_blocks_of_task
SELECT b.id, b.part, b.rows, b.first_claimed, b.last_claimed, b.notable
FROM parts p CROSS JOIN blocks b ON b.part = p.number
WHERE p.state = 'complete' AND p.layer = :layer AND p.first_claimed < :until AND p.last_claimed >= :since
    AND b.last_task BETWEEN :task
        AND coalesce((SELECT min(n.last_task) FROM blocks n WHERE n.part = p.number AND n.last_task > :task), :task)
    AND b.first_task <= :task AND b.first_claimed < :until AND b.last_claimed >= :since;

-- name: block_body
SELECT body FROM blocks WHERE id = :id;

-- name: tasks_of_runs
SELECT number, name, coalesce(definition ->> 'check', 0) FROM tasks
WHERE number IN (SELECT value FROM json_each(:numbers));

-- name: layer_sizes
SELECT layer, count(*), sum(rows), sum(size) FROM parts WHERE state = 'complete' GROUP BY layer;

-- name: unpacked_runs
SELECT (SELECT coalesce(max(id) - min(id) + 1, 0) FROM plain_runs)
    + (SELECT coalesce(max(id) - min(id) + 1, 0) FROM notable_runs)
    + (SELECT coalesce(sum(runs), 0) FROM run_log);

-- name: give_back_page
-- One: sqlite3 of Python makes only one step of a pragma.
PRAGMA incremental_vacuum(1);
