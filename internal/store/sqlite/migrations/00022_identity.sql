-- Scopes and projects of tokens, and the principals of people who come from outside. A token without a scope was written
-- by an older version: its admin column says which scope it has.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tokens ADD COLUMN scope TEXT NOT NULL DEFAULT '' CHECK (scope IN ('', 'read', 'run', 'admin'));
ALTER TABLE tokens ADD COLUMN projects TEXT NOT NULL DEFAULT ''; -- one a line; empty: all

CREATE TABLE identities (
    principal  TEXT    NOT NULL PRIMARY KEY CHECK (principal <> ''),
    source     TEXT    NOT NULL CHECK (source <> ''),
    subject_id TEXT    NOT NULL CHECK (subject_id <> ''),
    created_at INTEGER NOT NULL,
    UNIQUE (source, subject_id)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE identities;
ALTER TABLE tokens DROP COLUMN projects;
ALTER TABLE tokens DROP COLUMN scope;
-- +goose StatementEnd
