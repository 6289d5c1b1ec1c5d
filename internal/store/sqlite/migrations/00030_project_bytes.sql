-- How many bytes of text, output and payloads are stored for the tasks of a project, before compression. The triggers below update it,
-- as others do for the owner.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE stored_projects (
    project TEXT    NOT NULL PRIMARY KEY,
    bytes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO stored_projects (project, bytes)
SELECT project, sum(bytes) FROM (
    SELECT project, octet_length(description) + octet_length(summary) AS bytes FROM tasks
    UNION ALL
    SELECT project, octet_length(rest) FROM task_descriptions JOIN tasks ON id = task_id
    UNION ALL
    SELECT project, size FROM payloads JOIN tasks ON id = task_id
    UNION ALL
    SELECT project, octet_length(text) + coalesce(octet_length(data), 0) FROM events JOIN tasks ON id = task_id
) WHERE project <> '' GROUP BY project;

CREATE TRIGGER stored_project_task_added AFTER INSERT ON tasks WHEN NEW.project <> ''
BEGIN
    INSERT INTO stored_projects (project, bytes) VALUES (NEW.project, octet_length(NEW.description) + octet_length(NEW.summary))
        ON CONFLICT (project) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_project_task_changed AFTER UPDATE OF description, summary ON tasks
    WHEN OLD.description <> NEW.description OR OLD.summary <> NEW.summary
BEGIN
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.description) + octet_length(NEW.summary)
        - octet_length(OLD.description) - octet_length(OLD.summary) WHERE project = NEW.project;
END;
CREATE TRIGGER stored_project_task_removed AFTER DELETE ON tasks
BEGIN
    UPDATE stored_projects SET bytes = bytes - octet_length(OLD.description) - octet_length(OLD.summary) WHERE project = OLD.project;
END;

CREATE TRIGGER stored_project_rest_added AFTER INSERT ON task_descriptions
BEGIN
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.rest) WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_project_rest_changed AFTER UPDATE ON task_descriptions
BEGIN
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.rest) - octet_length(OLD.rest)
        WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_project_rest_removed AFTER DELETE ON task_descriptions
BEGIN
    UPDATE stored_projects SET bytes = bytes - octet_length(OLD.rest) WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;

CREATE TRIGGER stored_project_payload_added AFTER INSERT ON payloads
BEGIN
    UPDATE stored_projects SET bytes = bytes + NEW.size WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_project_payload_changed AFTER UPDATE OF size ON payloads
BEGIN
    UPDATE stored_projects SET bytes = bytes + NEW.size - OLD.size WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_project_payload_removed AFTER DELETE ON payloads
BEGIN
    UPDATE stored_projects SET bytes = bytes - OLD.size WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;

CREATE TRIGGER stored_project_event_added AFTER INSERT ON events WHEN NEW.task_id <> ''
BEGIN
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.text) + coalesce(octet_length(NEW.data), 0)
        WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_project_event_removed AFTER DELETE ON events WHEN OLD.task_id <> ''
BEGIN
    UPDATE stored_projects SET bytes = bytes - octet_length(OLD.text) - coalesce(octet_length(OLD.data), 0)
        WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER stored_project_event_removed;
DROP TRIGGER stored_project_event_added;
DROP TRIGGER stored_project_payload_removed;
DROP TRIGGER stored_project_payload_changed;
DROP TRIGGER stored_project_payload_added;
DROP TRIGGER stored_project_rest_removed;
DROP TRIGGER stored_project_rest_changed;
DROP TRIGGER stored_project_rest_added;
DROP TRIGGER stored_project_task_removed;
DROP TRIGGER stored_project_task_changed;
DROP TRIGGER stored_project_task_added;
DROP TABLE stored_projects;
-- +goose StatementEnd
