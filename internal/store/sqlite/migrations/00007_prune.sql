-- Indexes for finding old rows.

-- +goose Up
CREATE INDEX requests_created ON requests (created_at);
CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE agent_uid <> '';

-- +goose Down
DROP INDEX tokens_revoked;
DROP INDEX requests_created;
