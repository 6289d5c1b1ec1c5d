-- Tasks that agents delegate to other agents. Older programs would not hand their results over.

-- +goose Up
UPDATE compatibility SET oldest = 11;

ALTER TABLE tasks ADD COLUMN parent_id TEXT;
ALTER TABLE tasks ADD COLUMN root_id TEXT;
ALTER TABLE tasks ADD COLUMN delegation TEXT CHECK (json_valid(delegation));
CREATE INDEX tasks_parent ON tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_root ON tasks (root_id) WHERE root_id IS NOT NULL;

ALTER TABLE messages ADD COLUMN from_task TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

ALTER TABLE agents ADD COLUMN conversation TEXT NOT NULL DEFAULT '';

ALTER TABLE tokens ADD COLUMN task_id TEXT NOT NULL DEFAULT '';
