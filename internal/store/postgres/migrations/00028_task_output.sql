-- The task that a task has started again, and the output of a task with a schema, as JSON; empty if there is none.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN retry_of text NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN output text NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN output;
ALTER TABLE tasks DROP COLUMN retry_of;
-- +goose StatementEnd
