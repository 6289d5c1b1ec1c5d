-- The way of a task's work into a branch, and what people say about the work.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 9;

CREATE TABLE task_landings (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    state   text COLLATE "C" NOT NULL,
    landing json NOT NULL
);
CREATE INDEX task_landings_state ON task_landings (state);

CREATE TABLE task_reviews (
    n       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      text COLLATE "C" NOT NULL UNIQUE,
    task_id text COLLATE "C" NOT NULL REFERENCES tasks (id),
    review  json NOT NULL
);
CREATE INDEX task_reviews_task ON task_reviews (task_id);
-- +goose StatementEnd
