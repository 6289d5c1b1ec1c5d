-- Files of tasks. They are not in the row of their task, which lists read. Their bytes count as stored for the owner and the project.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE task_attachments (
    task_id    text    COLLATE "C" NOT NULL REFERENCES tasks (id),
    n          integer NOT NULL,
    name       text    COLLATE "C" NOT NULL CHECK (name <> ''),
    media_type text    NOT NULL,
    size       bigint  NOT NULL CHECK (size > 0),
    content    bytea   NOT NULL,
    PRIMARY KEY (task_id, n),
    UNIQUE (task_id, name)
);
CREATE TRIGGER stored_attachment AFTER INSERT OR DELETE ON task_attachments FOR EACH ROW EXECUTE FUNCTION fleet_stored_payload();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DELETE FROM task_attachments; -- so that their bytes no longer count
DROP TABLE task_attachments;
-- +goose StatementEnd
