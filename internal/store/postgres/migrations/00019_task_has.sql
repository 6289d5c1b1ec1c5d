-- What else there is of a task, so that nobody looks for messages, questions and checks that are not there.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks
    ADD COLUMN has_messages boolean NOT NULL DEFAULT false,
    ADD COLUMN has_questions boolean NOT NULL DEFAULT false,
    ADD COLUMN has_checks boolean NOT NULL DEFAULT false;

-- The checks of a contract are run when its task has ended.
CREATE OR REPLACE TRIGGER tasks_ended BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('completed', 'failed', 'stopped') AND (NEW.payload_removed, NEW.has_messages, NEW.has_questions, NEW.has_checks)
        = (OLD.payload_removed, OLD.has_messages, OLD.has_questions, OLD.has_checks))
    EXECUTE FUNCTION fleet_refuse('a task that has ended is never changed');

-- Its argument is the column.
CREATE FUNCTION fleet_task_has() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_ARGV[0]
        WHEN 'has_messages' THEN UPDATE tasks SET has_messages = true WHERE id = NEW.task_id AND NOT has_messages;
        WHEN 'has_questions' THEN UPDATE tasks SET has_questions = true WHERE id = NEW.task_id AND NOT has_questions;
        WHEN 'has_checks' THEN UPDATE tasks SET has_checks = true WHERE id = NEW.task_id AND NOT has_checks;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER task_has_messages AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION fleet_task_has('has_messages');
CREATE TRIGGER task_has_questions AFTER INSERT ON questions FOR EACH ROW EXECUTE FUNCTION fleet_task_has('has_questions');
CREATE TRIGGER task_has_checks AFTER INSERT ON task_checks FOR EACH ROW EXECUTE FUNCTION fleet_task_has('has_checks');

UPDATE tasks SET has_messages = id IN (SELECT task_id FROM messages), has_questions = id IN (SELECT task_id FROM questions),
    has_checks = id IN (SELECT task_id FROM task_checks)
    WHERE id IN (SELECT task_id FROM messages UNION SELECT task_id FROM questions UNION SELECT task_id FROM task_checks);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER task_has_checks ON task_checks;
DROP TRIGGER task_has_questions ON questions;
DROP TRIGGER task_has_messages ON messages;
DROP FUNCTION fleet_task_has;
CREATE OR REPLACE TRIGGER tasks_ended BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('completed', 'failed', 'stopped') AND NEW.payload_removed = OLD.payload_removed)
    EXECUTE FUNCTION fleet_refuse('a task that has ended is never changed');
ALTER TABLE tasks DROP COLUMN has_checks, DROP COLUMN has_questions, DROP COLUMN has_messages;
-- +goose StatementEnd
