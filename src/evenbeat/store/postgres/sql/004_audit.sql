-- The audit says from what to what a change went: rows of key, old value and new value, as JSON; empty for none.

ALTER TABLE changes ADD COLUMN fields text NOT NULL DEFAULT '';
