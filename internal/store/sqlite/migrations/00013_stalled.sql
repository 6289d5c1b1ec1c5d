-- Since when a task makes no progress, and the last step of its run. NULL: it makes progress or has ended.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN stalled_at INTEGER;
ALTER TABLE tasks ADD COLUMN last_step TEXT NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN last_step;
ALTER TABLE tasks DROP COLUMN stalled_at;
-- +goose StatementEnd
