-- The active task of an agent, with a condition that no other index has. Indexes with the condition of tasks_active all look as good to a
-- query for the task while nothing runs.

-- +goose Up
-- +goose StatementBegin
CREATE INDEX tasks_current ON tasks (agent_uid)
    WHERE CASE status WHEN 'pending' THEN true WHEN 'running' THEN true ELSE false END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX tasks_current;
-- +goose StatementEnd
