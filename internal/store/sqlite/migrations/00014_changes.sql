-- Changes of tasks in the working trees of their agents.

-- +goose Up
CREATE TABLE task_changes (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    changes TEXT NOT NULL CHECK (json_valid(changes))
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE task_changes;
