-- Current counts per owner, for checking limits quickly.

-- +goose Up
-- +goose StatementBegin
CREATE INDEX agents_owned ON agents (owner, toolset, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX tasks_owned ON tasks (owner, status) WHERE status IN ('pending', 'running');

-- How many bytes of text, output and payloads are stored for an owner, before compression. The triggers below update it.
CREATE TABLE stored (
    owner TEXT    NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO stored (owner, bytes)
SELECT owner, sum(bytes) FROM (
    SELECT owner, octet_length(description) + octet_length(summary) AS bytes FROM tasks
    UNION ALL
    SELECT owner, octet_length(rest) FROM task_descriptions JOIN tasks ON id = task_id
    UNION ALL
    SELECT owner, size FROM payloads JOIN tasks ON id = task_id
    UNION ALL
    SELECT owner, octet_length(text) + coalesce(octet_length(data), 0) FROM events
) GROUP BY owner;

CREATE TRIGGER stored_task_added AFTER INSERT ON tasks
BEGIN
    INSERT INTO stored (owner, bytes) VALUES (NEW.owner, octet_length(NEW.description) + octet_length(NEW.summary))
        ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_task_changed AFTER UPDATE OF description, summary ON tasks
    WHEN OLD.description <> NEW.description OR OLD.summary <> NEW.summary
BEGIN
    UPDATE stored SET bytes = bytes + octet_length(NEW.description) + octet_length(NEW.summary)
        - octet_length(OLD.description) - octet_length(OLD.summary) WHERE owner = NEW.owner;
END;
CREATE TRIGGER stored_task_removed AFTER DELETE ON tasks
BEGIN
    UPDATE stored SET bytes = bytes - octet_length(OLD.description) - octet_length(OLD.summary) WHERE owner = OLD.owner;
END;

CREATE TRIGGER stored_rest_added AFTER INSERT ON task_descriptions
BEGIN
    UPDATE stored SET bytes = bytes + octet_length(NEW.rest) WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_rest_changed AFTER UPDATE ON task_descriptions
BEGIN
    UPDATE stored SET bytes = bytes + octet_length(NEW.rest) - octet_length(OLD.rest)
        WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_rest_removed AFTER DELETE ON task_descriptions
BEGIN
    UPDATE stored SET bytes = bytes - octet_length(OLD.rest) WHERE owner = (SELECT owner FROM tasks WHERE id = OLD.task_id);
END;

CREATE TRIGGER stored_payload_added AFTER INSERT ON payloads
BEGIN
    UPDATE stored SET bytes = bytes + NEW.size WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_payload_changed AFTER UPDATE OF size ON payloads
BEGIN
    UPDATE stored SET bytes = bytes + NEW.size - OLD.size WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_payload_removed AFTER DELETE ON payloads
BEGIN
    UPDATE stored SET bytes = bytes - OLD.size WHERE owner = (SELECT owner FROM tasks WHERE id = OLD.task_id);
END;

CREATE TRIGGER stored_event_added AFTER INSERT ON events
BEGIN
    INSERT INTO stored (owner, bytes) VALUES (NEW.owner, octet_length(NEW.text) + coalesce(octet_length(NEW.data), 0))
        ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_event_removed AFTER DELETE ON events
BEGIN
    UPDATE stored SET bytes = bytes - octet_length(OLD.text) - coalesce(octet_length(OLD.data), 0) WHERE owner = OLD.owner;
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER stored_event_removed;
DROP TRIGGER stored_event_added;
DROP TRIGGER stored_payload_removed;
DROP TRIGGER stored_payload_changed;
DROP TRIGGER stored_payload_added;
DROP TRIGGER stored_rest_removed;
DROP TRIGGER stored_rest_changed;
DROP TRIGGER stored_rest_added;
DROP TRIGGER stored_task_removed;
DROP TRIGGER stored_task_changed;
DROP TRIGGER stored_task_added;
DROP TABLE stored;
DROP INDEX tasks_owned;
DROP INDEX agents_owned;
-- +goose StatementEnd
