-- Each agent names the place where it lives.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents RENAME COLUMN backend TO place;

-- Until now agents of the configured place did not name it. It is the one whose workspaces were last listed.
UPDATE agents SET place = coalesce((SELECT substr(key, 6) FROM notes WHERE key LIKE 'poll/%' ORDER BY at DESC LIMIT 1), '')
WHERE place = '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
UPDATE agents SET place = '' WHERE toolset = '';
ALTER TABLE agents RENAME COLUMN place TO backend;
-- +goose StatementEnd
