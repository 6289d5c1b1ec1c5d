-- What else there is of a task, so that nobody looks for messages, questions and checks that are not there.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN has_messages INTEGER NOT NULL DEFAULT 0 CHECK (has_messages IN (0, 1));
ALTER TABLE tasks ADD COLUMN has_questions INTEGER NOT NULL DEFAULT 0 CHECK (has_questions IN (0, 1));
ALTER TABLE tasks ADD COLUMN has_checks INTEGER NOT NULL DEFAULT 0 CHECK (has_checks IN (0, 1));

UPDATE tasks SET has_messages = 1 WHERE id IN (SELECT task_id FROM messages);
UPDATE tasks SET has_questions = 1 WHERE id IN (SELECT task_id FROM questions);
UPDATE tasks SET has_checks = 1 WHERE id IN (SELECT task_id FROM task_checks);

CREATE TRIGGER task_has_messages AFTER INSERT ON messages
BEGIN
    UPDATE tasks SET has_messages = 1 WHERE id = NEW.task_id AND NOT has_messages;
END;
CREATE TRIGGER task_has_questions AFTER INSERT ON questions
BEGIN
    UPDATE tasks SET has_questions = 1 WHERE id = NEW.task_id AND NOT has_questions;
END;
CREATE TRIGGER task_has_checks AFTER INSERT ON task_checks
BEGIN
    UPDATE tasks SET has_checks = 1 WHERE id = NEW.task_id AND NOT has_checks;
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER task_has_checks;
DROP TRIGGER task_has_questions;
DROP TRIGGER task_has_messages;
DROP TRIGGER usage_task_removed; -- SQLite reads all triggers again, and does not find the columns of this one's alias
ALTER TABLE tasks DROP COLUMN has_checks;
ALTER TABLE tasks DROP COLUMN has_questions;
ALTER TABLE tasks DROP COLUMN has_messages;
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks WHEN OLD.status NOT IN ('pending', 'running')
BEGIN
    UPDATE usage_days AS d SET tasks = d.tasks - t.tasks, completed = d.completed - t.completed, failed = d.failed - t.failed,
        stopped = d.stopped - t.stopped, cost = d.cost - t.cost, input_tokens = d.input_tokens - t.input_tokens,
        output_tokens = d.output_tokens - t.output_tokens, tool_calls = d.tool_calls - t.tool_calls, took = d.took - t.took
        FROM task_usage AS t WHERE t.n = OLD.n AND d.day = t.day AND d.owner = t.owner AND d.project = t.project;
END;
-- +goose StatementEnd
