-- With whom an agent is shared: a list of people and groups. NULL if with nobody.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN shares json CHECK (json_typeof(shares) = 'array');
CREATE INDEX agents_shared ON agents (uid) WHERE shares IS NOT NULL;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX agents_shared;
ALTER TABLE agents DROP COLUMN shares;
-- +goose StatementEnd
