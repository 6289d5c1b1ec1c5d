-- Secrets of the server itself, shared by all servers of a database. None belongs to a user.

-- +goose Up
CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE secrets;
