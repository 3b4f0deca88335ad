-- Tasks that follow others: how runs of the tasks before them ended, and which of these ends they have used.

CREATE TABLE chain_ends (
    task bigint NOT NULL,
    nominal bigint NOT NULL,
    at bigint NOT NULL,
    generation integer NOT NULL,
    succeeded boolean NOT NULL,         -- false: it failed, and is not tried again
    PRIMARY KEY (task, succeeded)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE chain_uses (
    task bigint PRIMARY KEY,
    used bytea NOT NULL
);

-- Their definitions say "after" or "after_failure"; so do some that say when somebody is notified.
CREATE INDEX tasks_after_others ON tasks (number) WHERE removed IS NULL AND strpos(definition, '"after') > 0;
