-- Tasks that agents start by themselves.

-- +goose Up
ALTER TABLE tasks ADD COLUMN self_started INTEGER NOT NULL DEFAULT 0 CHECK (self_started IN (0, 1));

-- +goose Down
ALTER TABLE tasks DROP COLUMN self_started;
