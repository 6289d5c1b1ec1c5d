-- Work of deleted agents, as a git bundle, and what may be lost.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE agent_remains (
    agent_uid TEXT    NOT NULL PRIMARY KEY,
    kept_at   INTEGER NOT NULL,
    size      INTEGER NOT NULL CHECK (size >= 0), -- of the bundle, in bytes
    lost      TEXT    NOT NULL,
    bundle    BLOB    NOT NULL
) STRICT;

CREATE INDEX agent_remains_time ON agent_remains (kept_at);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE agent_remains;
-- +goose StatementEnd
