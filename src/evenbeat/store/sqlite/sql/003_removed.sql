-- A claim asks whether its task was removed. Only removed tasks are in this index, so that it stays small.
CREATE INDEX tasks_removed_by_number ON tasks (number) WHERE removed IS NOT NULL;
