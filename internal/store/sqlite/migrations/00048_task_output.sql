-- The task that a task has started again, and the output of a task with a schema, as JSON; empty if there is none.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN retry_of TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN output TEXT NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER usage_task_removed; -- SQLite reads all triggers again, and does not find the columns of this one's alias
ALTER TABLE tasks DROP COLUMN output;
ALTER TABLE tasks DROP COLUMN retry_of;
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks WHEN OLD.status NOT IN ('pending', 'running')
BEGIN
    UPDATE usage_days AS d SET tasks = d.tasks - t.tasks, completed = d.completed - t.completed, failed = d.failed - t.failed,
        stopped = d.stopped - t.stopped, cost = d.cost - t.cost, input_tokens = d.input_tokens - t.input_tokens,
        output_tokens = d.output_tokens - t.output_tokens, tool_calls = d.tool_calls - t.tool_calls, took = d.took - t.took
        FROM task_usage AS t WHERE t.n = OLD.n AND d.day = t.day AND d.owner = t.owner AND d.project = t.project;
END;
-- +goose StatementEnd
