-- Each agent names the place where it lives.

-- +goose Up
ALTER TABLE agents RENAME COLUMN backend TO place;

-- Until now the agents of the configured backend named none. It is the one that was last asked for its workspaces.
UPDATE agents SET place = coalesce((SELECT substr(key, 6) FROM notes WHERE key LIKE 'poll/%' ORDER BY at DESC LIMIT 1), '')
WHERE place = '';

-- +goose Down
UPDATE agents SET place = '' WHERE toolset = '';
ALTER TABLE agents RENAME COLUMN place TO backend;
