-- What a store remembers, for several nodes at once. Times are microseconds on the epoch.
-- Names are compared byte by byte wherever the database is. A text never holds NUL: see postgres_text.py.

-- One row. Whoever changes tasks, periods or limits takes the next stamp, and holds this row until the change is
-- visible: stamps appear in order, and changes are made one at a time.
CREATE TABLE marks (
    stamp bigint NOT NULL,
    settings_stamp bigint NOT NULL,     -- of the newest change of periods, limits, or settings of the node
    last_number bigint NOT NULL         -- the largest number that a task ever had
);
INSERT INTO marks VALUES (0, 0, 0);

CREATE TABLE tasks (
    number bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    created bigint NOT NULL,
    changed bigint NOT NULL,
    removed bigint,                     -- a removed task stays while its history does, to name it
    stamp bigint NOT NULL,
    is_check boolean NOT NULL,          -- what filters ask of the definition
    is_off boolean NOT NULL,
    labels text[] COLLATE "C" NOT NULL, -- each a JSON array of key and value
    limit_key text COLLATE "C",
    definition text NOT NULL            -- model.Task as JSON
);
CREATE UNIQUE INDEX tasks_by_name ON tasks (name) WHERE removed IS NULL;
CREATE INDEX tasks_by_owner ON tasks (owner) WHERE removed IS NULL;
CREATE INDEX tasks_removed ON tasks (removed) WHERE removed IS NOT NULL;
CREATE INDEX tasks_by_stamp ON tasks (stamp);
CREATE INDEX tasks_by_partition ON tasks (mod(number, 256)) WHERE removed IS NULL;

-- Where each task stands, and its latest result. No column that changes is in an index, and pages have room: so a new
-- version of a row mostly stays on its page, and no index learns of it.
CREATE TABLE progress (
    task bigint PRIMARY KEY,
    next_nominal bigint,                -- NULL: nothing is known of it yet
    extra bigint NOT NULL DEFAULT 4611686018427387904,
    last_start bigint NOT NULL DEFAULT -4611686018427387904,
    result_at bigint NOT NULL DEFAULT -4611686018427387904,
    started bigint,                     -- of the latest run that ended ...
    ended bigint,
    changes bigint NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 1,
    extra_kind smallint NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0,
    hard boolean NOT NULL DEFAULT true,
    flapping boolean NOT NULL DEFAULT false,
    outcome text COLLATE "C",
    cursor bytea,
    output text NOT NULL DEFAULT ''
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX progress_by_partition ON progress (mod(task, 256));

-- The open claims. The primary key is what forbids a second running instance. While a claim is open, where the task
-- stands is said here, and moved to `progress` when the run ends.
CREATE TABLE claims (
    task bigint PRIMARY KEY,
    nominal bigint NOT NULL,
    at bigint NOT NULL,
    next_nominal bigint NOT NULL,
    extra bigint NOT NULL,
    token bigint NOT NULL DEFAULT 0,
    started bigint,
    generation integer NOT NULL,
    kind smallint NOT NULL,
    extra_kind smallint NOT NULL,
    untaken boolean NOT NULL DEFAULT false  -- whoever claimed it left in order, and knew that no worker had it
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- Runs that ended, a table for each day: see ensure_days. Two, because plain successes go sooner.
CREATE SEQUENCE plain_ids;
CREATE SEQUENCE notable_ids;
CREATE TABLE plain_runs (
    id bigint NOT NULL DEFAULT nextval('plain_ids'),
    task bigint NOT NULL,
    nominal bigint NOT NULL,
    claimed bigint NOT NULL,
    started bigint NOT NULL,
    ended bigint NOT NULL,
    generation integer NOT NULL,
    status integer,
    attempt integer NOT NULL,
    kind smallint NOT NULL,
    state smallint,                     -- what this run made of a check; NULL if it told nothing new
    hard boolean NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    output text NOT NULL
) PARTITION BY RANGE (claimed);
CREATE TABLE notable_runs (LIKE plain_runs) PARTITION BY RANGE (claimed);
ALTER TABLE notable_runs ALTER id SET DEFAULT nextval('notable_ids');
CREATE INDEX plain_runs_by_time ON plain_runs (claimed);
CREATE INDEX plain_runs_by_task ON plain_runs (task, claimed);
CREATE INDEX notable_runs_by_time ON notable_runs (claimed);
CREATE INDEX notable_runs_by_task ON notable_runs (task, claimed);
CREATE TABLE plain_runs_else PARTITION OF plain_runs DEFAULT;
CREATE TABLE notable_runs_else PARTITION OF notable_runs DEFAULT;

-- Nominal times without a run (kind 0), as ranges that grow; and off-grid runs that were refused.
CREATE TABLE skips (
    task bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    first bigint NOT NULL,
    last bigint NOT NULL,
    times bigint NOT NULL,
    at bigint NOT NULL,
    next_nominal bigint,                -- NULL: an off-grid run, which no range continues
    kind smallint NOT NULL DEFAULT 0,
    reason text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, id)
);
CREATE INDEX skips_by_time ON skips (at);

CREATE TABLE changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    name text COLLATE "C" NOT NULL,
    detail text NOT NULL
);
CREATE INDEX changes_by_name ON changes (name, id);

CREATE TABLE periods (
    name text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    definition text NOT NULL            -- model.Period as JSON
);

CREATE TABLE settings (
    key text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Who writes, and the number of the latest that was kept: told anew in each transaction, so that one whose answer got
-- lost can be asked about.
CREATE TABLE writers (
    writer text COLLATE "C" PRIMARY KEY,
    recorded bigint NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Authority. A lease is locked FOR KEY SHARE by whoever records under it: renewing goes on meanwhile, burying waits.
CREATE SEQUENCE fences;
CREATE TABLE leases (
    node text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL UNIQUE,
    expires bigint NOT NULL,
    about bytea NOT NULL,
    is_leaving boolean NOT NULL DEFAULT false   -- somebody else stays
) WITH (fillfactor = 50);
CREATE TABLE partitions (
    partition integer PRIMARY KEY,
    holder text COLLATE "C",
    is_new boolean NOT NULL DEFAULT true    -- nobody has held it since the cluster was started
);
INSERT INTO partitions (partition) SELECT generate_series(0, 255);

CREATE TABLE shares (
    key text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    share bigint NOT NULL,
    PRIMARY KEY (key, node)
);

-- What runs, once for the key of all slots and once for that of its limit: what a share is made of.
CREATE VIEW open_by_key AS
SELECT mod(c.task, 256) AS partition, k.key
FROM claims c JOIN tasks t ON t.number = c.task CROSS JOIN LATERAL (VALUES (''), (t.limit_key)) k (key)
WHERE k.key IS NOT NULL;

CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL,
    at bigint NOT NULL,
    request bytea NOT NULL,
    is_taken boolean NOT NULL DEFAULT false,
    reply bytea,
    answered bigint
);

CREATE FUNCTION clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Raises what Python knows by its code: EB001 is a contradiction, EB002 a lease that is gone.
CREATE FUNCTION refuse(what text) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION USING MESSAGE = what, ERRCODE = 'EB001'; END $$;

-- The beginning of everything that is written. A number that was used already is a transaction that came late, after
-- it had been given up: it must not count.
CREATE FUNCTION begin_writing(me text, number bigint, my_node text, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO writers AS w VALUES (me, number, now())
    ON CONFLICT (writer) DO UPDATE SET recorded = number, seen = now() WHERE w.recorded < number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'transaction % of % comes too late', number, me USING ERRCODE = 'EB003';
    END IF;
    IF my_node IS NOT NULL THEN
        PERFORM 1 FROM leases WHERE node = my_node AND epoch = my_epoch FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the lease of % is gone', my_node USING ERRCODE = 'EB002';
        END IF;
    END IF;
END $$;

-- Whether a transaction whose answer got lost was kept. If not, it never will be. Waits for it if it is under way.
CREATE FUNCTION was_kept(me text, number bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    latest bigint;
BEGIN
    INSERT INTO writers VALUES (me, number, now()) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN false;
    END IF;
    SELECT recorded INTO latest FROM writers WHERE writer = me FOR UPDATE;
    IF latest >= number THEN
        RETURN true;
    END IF;
    UPDATE writers SET recorded = number WHERE writer = me;
    RETURN false;
END $$;

-- A table for each day from that of `since` on, as far as they are missing. A day of which there are runs elsewhere
-- already stays there.
CREATE FUNCTION ensure_days(since bigint, days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text;
    day bigint;
    name text;
    taken boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('evenbeat days', 0));
    FOREACH kind IN ARRAY ARRAY['plain_runs', 'notable_runs'] LOOP
        FOR day IN SELECT (since / 86400000000 + n) * 86400000000 FROM generate_series(0, days - 1) AS n LOOP
            name := kind || to_char(to_timestamp(day / 1000000) AT TIME ZONE 'UTC', '_YYYYMMDD');
            -- From the catalogue: to_regclass() may answer as of before we waited for the lock.
            IF NOT EXISTS (
                SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'evenbeat' AND c.relname = name
            ) THEN
                EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE claimed >= $1 AND claimed < $2)', kind || '_else')
                INTO taken USING day, day + 86400000000;
                IF NOT taken THEN
                    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                        name, kind, day, day + 86400000000);
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END $$;
