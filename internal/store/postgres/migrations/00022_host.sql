-- What a caller has chosen for an agent's workspace, what its host reports about it, and what its next start changes. All are JSON objects.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN parameters json CHECK (json_typeof(parameters) = 'object');
ALTER TABLE agents ADD COLUMN host json CHECK (json_typeof(host) = 'object');
ALTER TABLE agents ADD COLUMN next_start json CHECK (json_typeof(next_start) = 'object');
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE agents DROP COLUMN next_start;
ALTER TABLE agents DROP COLUMN host;
ALTER TABLE agents DROP COLUMN parameters;
-- +goose StatementEnd
