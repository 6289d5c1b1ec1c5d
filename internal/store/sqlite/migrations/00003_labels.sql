-- Names and values that people and programs give to agents and tasks.

-- +goose Up
ALTER TABLE agents ADD COLUMN labels TEXT CHECK (json_type(labels) = 'object');
ALTER TABLE tasks ADD COLUMN labels TEXT CHECK (json_type(labels) = 'object');
CREATE INDEX tasks_labelled ON tasks (created_at, n) WHERE labels IS NOT NULL;
