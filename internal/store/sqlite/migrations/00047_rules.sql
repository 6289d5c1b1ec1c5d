-- Rules that people have allowed by answering a question: what an answer can allow, for how long, and what an agent is allowed.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE questions ADD COLUMN rules TEXT CHECK (json_type(rules) = 'array');
ALTER TABLE questions ADD COLUMN remember TEXT NOT NULL DEFAULT '' CHECK (remember IN ('', 'once', 'task', 'agent'));
ALTER TABLE agents ADD COLUMN rules TEXT CHECK (json_type(rules) = 'array');
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER usage_task_removed; -- SQLite reads all triggers again, and does not find the columns of this one's alias
ALTER TABLE agents DROP COLUMN rules;
ALTER TABLE questions DROP COLUMN remember;
ALTER TABLE questions DROP COLUMN rules;
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks WHEN OLD.status NOT IN ('pending', 'running')
BEGIN
    UPDATE usage_days AS d SET tasks = d.tasks - t.tasks, completed = d.completed - t.completed, failed = d.failed - t.failed,
        stopped = d.stopped - t.stopped, cost = d.cost - t.cost, input_tokens = d.input_tokens - t.input_tokens,
        output_tokens = d.output_tokens - t.output_tokens, tool_calls = d.tool_calls - t.tool_calls, took = d.took - t.took
        FROM task_usage AS t WHERE t.n = OLD.n AND d.day = t.day AND d.owner = t.owner AND d.project = t.project;
END;
-- +goose StatementEnd
