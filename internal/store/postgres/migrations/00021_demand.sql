-- How many requests a second each server receives, so that the servers can divide the limits by it.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE replicas ADD COLUMN demand text;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE replicas DROP COLUMN demand;
-- +goose StatementEnd
