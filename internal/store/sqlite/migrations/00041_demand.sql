-- How many requests a second each server receives, so that the servers can divide the limits by it.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE replicas ADD COLUMN demand TEXT;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- DROP COLUMN would make SQLite read all triggers again, and it does not find the columns of an alias in one of them.
CREATE TEMP TABLE kept AS SELECT name, machine, address, version, started_at, heard_at, stopped, forgotten FROM replicas;
DROP TABLE replicas;
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
INSERT INTO replicas SELECT * FROM kept;
DROP TABLE kept;
-- +goose StatementEnd
