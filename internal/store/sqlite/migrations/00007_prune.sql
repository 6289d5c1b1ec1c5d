-- Indexes for finding old rows.

-- +goose Up
-- +goose StatementBegin
CREATE INDEX requests_created ON requests (created_at);
CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE agent_uid <> '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX tokens_revoked;
DROP INDEX requests_created;
-- +goose StatementEnd
