-- Whether the agent itself said how its task ended.

-- +goose Up
ALTER TABLE tasks ADD COLUMN reported INTEGER NOT NULL DEFAULT 0 CHECK (reported IN (0, 1));

-- +goose Down
ALTER TABLE tasks DROP COLUMN reported;
