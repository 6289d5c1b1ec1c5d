-- Lists of tasks across agents, and payloads that are removed after their retention.

-- +goose Up
-- +goose StatementBegin
DROP TRIGGER tasks_ended;

-- Copied from the task's agent, so that lists need no join.
ALTER TABLE tasks ADD COLUMN name_key TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN toolset TEXT NOT NULL DEFAULT '';
UPDATE tasks SET (name_key, project, toolset) = (SELECT name_key, project, toolset FROM agents WHERE uid = agent_uid);

-- The payload was removed. Only this field of an ended task can change.
ALTER TABLE tasks ADD COLUMN payload_removed INTEGER NOT NULL DEFAULT 0 CHECK (payload_removed IN (0, 1));

CREATE TRIGGER tasks_ended BEFORE UPDATE OF status ON tasks WHEN OLD.status IN ('completed', 'failed', 'stopped')
BEGIN
    SELECT RAISE(ABORT, 'a task that has ended is never changed');
END;

-- These indexes cover all filters, so that only the rows of one page are read.
CREATE INDEX tasks_listed_owner ON tasks (owner, created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_listed ON tasks (created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_payload ON tasks (ended_at) WHERE payload_size > 0 AND payload_removed = 0;
CREATE INDEX agents_ever ON agents (name_key, created_at, n);

-- Full-text index of tasks, ignoring case.
CREATE VIRTUAL TABLE tasks_text USING fts5 (description, summary, content = '', contentless_delete = 1, tokenize = 'trigram');
INSERT INTO tasks_text (rowid, description, summary) SELECT n, description, summary FROM tasks;

CREATE TRIGGER tasks_text_added AFTER INSERT ON tasks
BEGIN
    INSERT INTO tasks_text (rowid, description, summary) VALUES (NEW.n, NEW.description, NEW.summary);
END;
CREATE TRIGGER tasks_text_changed AFTER UPDATE OF description, summary ON tasks
    WHEN OLD.description <> NEW.description OR OLD.summary <> NEW.summary
BEGIN
    UPDATE tasks_text SET description = NEW.description, summary = NEW.summary WHERE rowid = NEW.n;
END;
CREATE TRIGGER tasks_text_removed AFTER DELETE ON tasks
BEGIN
    DELETE FROM tasks_text WHERE rowid = OLD.n;
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER tasks_text_removed;
DROP TRIGGER tasks_text_changed;
DROP TRIGGER tasks_text_added;
DROP TABLE tasks_text;
DROP INDEX agents_ever;
DROP INDEX tasks_payload;
DROP INDEX tasks_listed;
DROP INDEX tasks_listed_owner;
DROP TRIGGER tasks_ended;
ALTER TABLE tasks DROP COLUMN payload_removed;
ALTER TABLE tasks DROP COLUMN toolset;
ALTER TABLE tasks DROP COLUMN project;
ALTER TABLE tasks DROP COLUMN name_key;
CREATE TRIGGER tasks_ended BEFORE UPDATE ON tasks WHEN OLD.status IN ('completed', 'failed', 'stopped')
BEGIN
    SELECT RAISE(ABORT, 'a task that has ended is never changed');
END;
-- +goose StatementEnd
