-- When something was last done, for all processes to know.

-- +goose Up
CREATE TABLE notes (
    key TEXT    NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE notes;
