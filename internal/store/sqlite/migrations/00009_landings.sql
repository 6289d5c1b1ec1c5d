-- The way of a task's work into a branch, and what people say about the work.

-- +goose Up
UPDATE compatibility SET oldest = 9;

CREATE TABLE task_landings (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    state   TEXT NOT NULL,
    landing TEXT NOT NULL CHECK (json_valid(landing))
) STRICT, WITHOUT ROWID;
CREATE INDEX task_landings_state ON task_landings (state);

CREATE TABLE task_reviews (
    n       INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    review  TEXT NOT NULL CHECK (json_valid(review))
) STRICT;
CREATE INDEX task_reviews_task ON task_reviews (task_id);
