-- Changes of tasks in the working trees of their agents.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE task_changes (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    changes TEXT NOT NULL CHECK (json_valid(changes))
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE task_changes;
-- +goose StatementEnd
