-- Rules that people have allowed by answering a question: what an answer can allow, for how long, and what an agent is allowed.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE questions ADD COLUMN rules json CHECK (json_typeof(rules) = 'array');
ALTER TABLE questions ADD COLUMN remember text NOT NULL DEFAULT '' CHECK (remember IN ('', 'once', 'task', 'agent'));
ALTER TABLE agents ADD COLUMN rules json CHECK (json_typeof(rules) = 'array');
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE agents DROP COLUMN rules;
ALTER TABLE questions DROP COLUMN remember;
ALTER TABLE questions DROP COLUMN rules;
-- +goose StatementEnd
