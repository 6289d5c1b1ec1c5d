-- Messages to running tasks, stored until they are delivered.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE messages (
    n            INTEGER PRIMARY KEY, -- order of insertion
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    task_id      TEXT    NOT NULL REFERENCES tasks (id),
    text         TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    given_at     INTEGER,
    refused      TEXT    NOT NULL,
    refused_text TEXT    NOT NULL,
    CHECK (given_at IS NULL OR refused = '')
) STRICT;

CREATE INDEX messages_task ON messages (task_id, n);

CREATE TRIGGER messages_settled BEFORE UPDATE ON messages WHEN OLD.given_at IS NOT NULL OR OLD.refused <> ''
BEGIN
    SELECT RAISE(ABORT, 'what has become of a message never changes');
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE messages;
-- +goose StatementEnd
