-- The servers that use the store, each with when it was last heard.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE replicas (
    name       TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
    machine    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    heard_at   INTEGER NOT NULL,
    stopped    INTEGER NOT NULL CHECK (stopped IN (0, 1)),
    forgotten  INTEGER NOT NULL CHECK (forgotten IN (0, 1))
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE replicas;
-- +goose StatementEnd
