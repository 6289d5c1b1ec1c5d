-- Tasks that wait: they are pending and do not occupy their agents. Older programs would run them at once.

-- +goose Up
UPDATE compatibility SET oldest = 4;

DROP INDEX tasks_active;
CREATE UNIQUE INDEX tasks_active ON tasks (agent_uid) WHERE status = 'running';
CREATE INDEX tasks_pending ON tasks (agent_uid) WHERE status = 'pending';

-- What a task waits for, and how. The row stays when the task has started.
CREATE TABLE task_queue (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    entry   TEXT NOT NULL CHECK (json_valid(entry))
) STRICT, WITHOUT ROWID;
