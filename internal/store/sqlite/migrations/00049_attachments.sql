-- Files of tasks. They are not in the row of their task, which lists read. Their bytes count as stored for the owner and the project.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE task_attachments (
    task_id    TEXT    NOT NULL REFERENCES tasks (id),
    n          INTEGER NOT NULL,
    name       TEXT    NOT NULL CHECK (name <> ''),
    media_type TEXT    NOT NULL,
    size       INTEGER NOT NULL CHECK (size > 0),
    content    BLOB    NOT NULL,
    PRIMARY KEY (task_id, n),
    UNIQUE (task_id, name)
) STRICT;

CREATE TRIGGER stored_attachment_added AFTER INSERT ON task_attachments
BEGIN
    UPDATE stored SET bytes = bytes + NEW.size WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
    UPDATE stored_projects SET bytes = bytes + NEW.size WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_attachment_removed AFTER DELETE ON task_attachments
BEGIN
    UPDATE stored SET bytes = bytes - OLD.size WHERE owner = (SELECT owner FROM tasks WHERE id = OLD.task_id);
    UPDATE stored_projects SET bytes = bytes - OLD.size WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DELETE FROM task_attachments; -- so that their bytes no longer count
DROP TABLE task_attachments;
-- +goose StatementEnd
