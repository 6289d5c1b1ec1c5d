-- Tasks that wait: they are pending and do not occupy their agents. Older programs would run them at once.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 4;

DROP INDEX tasks_active;
CREATE UNIQUE INDEX tasks_active ON tasks (agent_uid) WHERE status = 'running';
DROP INDEX tasks_current;
CREATE INDEX tasks_current ON tasks (agent_uid) WHERE CASE status WHEN 'running' THEN true ELSE false END;
CREATE INDEX tasks_pending ON tasks (agent_uid) WHERE status = 'pending';

-- What a task waits for, and how. The row stays when the task has started.
CREATE TABLE task_queue (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    entry   json NOT NULL
);
-- +goose StatementEnd
