-- Whether a task's output was read from its agent's terminal.

-- +goose Up
ALTER TABLE tasks ADD COLUMN terminal INTEGER NOT NULL DEFAULT 0 CHECK (terminal IN (0, 1));

-- +goose Down
ALTER TABLE tasks DROP COLUMN terminal;
