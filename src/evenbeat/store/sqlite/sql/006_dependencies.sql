-- The tasks that depend on checks, whose definitions say "depends" or "depends_any".
CREATE INDEX tasks_with_parents ON tasks (number) WHERE removed IS NULL AND instr(definition, '"depends');
