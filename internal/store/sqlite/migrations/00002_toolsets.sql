-- For the other toolsets: agents with a configuration in several places, conversations, registered tools, and tokens
-- that belong to an agent.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN toolset TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN backend TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN one_task INTEGER NOT NULL DEFAULT 0 CHECK (one_task IN (0, 1));

-- Configurations of agents never change and can be large. A separate table keeps frequent writes of agents small.
CREATE TABLE recipes (
    agent_uid TEXT NOT NULL PRIMARY KEY REFERENCES agents (uid),
    recipe    TEXT NOT NULL CHECK (json_type(recipe) = 'object')
) STRICT;

ALTER TABLE tasks ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tool_calls INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_session ON tasks (session_id, created_at, n) WHERE session_id <> '';

ALTER TABLE events ADD COLUMN data BLOB;

ALTER TABLE tokens ADD COLUMN agent_uid TEXT NOT NULL DEFAULT '';
CREATE INDEX tokens_agent ON tokens (agent_uid) WHERE agent_uid <> '' AND revoked_at IS NULL;

CREATE TABLE sessions (
    n            INTEGER PRIMARY KEY, -- order of insertion
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    toolset      TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    agent_uid    TEXT    NOT NULL,
    messages     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    used_at      INTEGER NOT NULL,
    closed_at    INTEGER,
    close_reason TEXT    NOT NULL,
    revision     INTEGER NOT NULL
) STRICT;

-- Keys of open sessions are unique per owner and toolset.
CREATE UNIQUE INDEX sessions_key ON sessions (toolset, owner, key) WHERE key <> '' AND closed_at IS NULL;
CREATE INDEX sessions_open ON sessions (toolset, owner, used_at) WHERE closed_at IS NULL;

CREATE TABLE tools (
    n          INTEGER PRIMARY KEY, -- order of insertion
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL CHECK (name <> ''),
    agent      TEXT    NOT NULL, -- '' for every agent
    tool       TEXT    NOT NULL CHECK (json_type(tool) = 'object'),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (owner, name, agent)
) STRICT;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE tools;
DROP TABLE sessions;
DROP INDEX tokens_agent;
ALTER TABLE tokens DROP COLUMN agent_uid;
ALTER TABLE events DROP COLUMN data;
DROP INDEX tasks_session;
ALTER TABLE tasks DROP COLUMN tool_calls;
ALTER TABLE tasks DROP COLUMN output_tokens;
ALTER TABLE tasks DROP COLUMN input_tokens;
ALTER TABLE tasks DROP COLUMN model;
ALTER TABLE tasks DROP COLUMN session_id;
DROP TABLE recipes;
ALTER TABLE agents DROP COLUMN one_task;
ALTER TABLE agents DROP COLUMN backend;
ALTER TABLE agents DROP COLUMN toolset;
-- +goose StatementEnd
