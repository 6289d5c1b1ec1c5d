-- Tasks that agents start by themselves.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN self_started INTEGER NOT NULL DEFAULT 0 CHECK (self_started IN (0, 1));
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN self_started;
-- +goose StatementEnd
