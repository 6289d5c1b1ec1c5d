-- Whether the agent itself reported the end of its task.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN reported INTEGER NOT NULL DEFAULT 0 CHECK (reported IN (0, 1));
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN reported;
-- +goose StatementEnd
