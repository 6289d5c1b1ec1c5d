-- Whether a task's output was read from its agent's terminal.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN terminal INTEGER NOT NULL DEFAULT 0 CHECK (terminal IN (0, 1));
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN terminal;
-- +goose StatementEnd
