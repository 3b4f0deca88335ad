-- Who has asked to stop a run, and why: a run that was to be stopped is not repeated if it is lost with its node.

ALTER TABLE claims ADD COLUMN stop TEXT NOT NULL DEFAULT '';
