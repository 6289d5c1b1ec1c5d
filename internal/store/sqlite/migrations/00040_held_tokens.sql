-- Tokens of people and programs by name, without the many tokens of agents.

-- +goose Up
-- +goose StatementBegin
CREATE INDEX tokens_held ON tokens (name) WHERE agent_uid = '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX tokens_held;
-- +goose StatementEnd
