-- What a task has spent by model, and the basis of its cost, as JSON.

-- +goose Up
ALTER TABLE tasks ADD COLUMN spent text;

-- +goose Down
ALTER TABLE tasks DROP COLUMN spent;
