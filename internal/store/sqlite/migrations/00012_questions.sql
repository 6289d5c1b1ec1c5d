-- Questions of agents during tasks.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0);

CREATE TABLE questions (
    n           INTEGER PRIMARY KEY, -- order of insertion
    id          TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    task_id     TEXT    NOT NULL REFERENCES tasks (id),
    agent_uid   TEXT    NOT NULL,
    agent_name  TEXT    NOT NULL,
    name_key    TEXT    NOT NULL, -- of the agent's name
    owner       TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('permission', 'question')),
    status      TEXT    NOT NULL CHECK (status IN ('waiting', 'answered', 'expired', 'withdrawn')),
    text        TEXT    NOT NULL,
    tool        TEXT    NOT NULL,
    input       BLOB,
    options     TEXT    NOT NULL, -- a JSON list
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    answer      TEXT    NOT NULL,
    message     TEXT    NOT NULL,
    answered_by TEXT    NOT NULL,
    answered_at INTEGER,
    given_at    INTEGER,
    CHECK (status <> 'waiting' OR answered_at IS NULL AND given_at IS NULL),
    CHECK (status <> 'answered' OR answered_at IS NOT NULL)
) STRICT;

CREATE INDEX questions_task ON questions (task_id, n);
CREATE INDEX questions_owner ON questions (owner, n);
CREATE INDEX questions_waiting ON questions (n) WHERE status = 'waiting';
CREATE INDEX questions_not_given ON questions (task_id) WHERE status = 'answered' AND given_at IS NULL;

CREATE TRIGGER questions_settled BEFORE UPDATE ON questions
WHEN OLD.given_at IS NOT NULL OR OLD.status IN ('expired', 'withdrawn') OR NEW.status = 'waiting'
BEGIN
    SELECT RAISE(ABORT, 'what has become of a question never changes');
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE questions;
ALTER TABLE tasks DROP COLUMN waiting;
-- +goose StatementEnd
