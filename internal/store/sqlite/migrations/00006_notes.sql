-- Times at which something was last done, shared by all processes.

-- +goose Up
CREATE TABLE notes (
    key TEXT    NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE notes;
