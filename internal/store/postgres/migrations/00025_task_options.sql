-- Options of one task for its agent's program, as a JSON object; empty if none is set.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN options text NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN options;
-- +goose StatementEnd
