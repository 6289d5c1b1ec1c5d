-- Times at which something was last done, shared by all processes.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE notes (
    key TEXT    NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE notes;
-- +goose StatementEnd
