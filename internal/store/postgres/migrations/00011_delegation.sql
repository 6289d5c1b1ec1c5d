-- Tasks that agents delegate to other agents. Older programs would not hand their results over.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 11;

ALTER TABLE tasks ADD COLUMN parent_id text COLLATE "C";
ALTER TABLE tasks ADD COLUMN root_id text COLLATE "C";
ALTER TABLE tasks ADD COLUMN delegation json;
CREATE INDEX tasks_parent ON tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_root ON tasks (root_id) WHERE root_id IS NOT NULL;

ALTER TABLE messages ADD COLUMN from_task text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN turn integer NOT NULL DEFAULT 0;

ALTER TABLE agents ADD COLUMN conversation text COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE tokens ADD COLUMN task_id text COLLATE "C" NOT NULL DEFAULT '';
-- +goose StatementEnd
