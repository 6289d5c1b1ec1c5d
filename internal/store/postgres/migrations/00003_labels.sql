-- Names and values that people and programs give to agents and tasks.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN labels jsonb CHECK (jsonb_typeof(labels) = 'object');
ALTER TABLE tasks ADD COLUMN labels jsonb CHECK (jsonb_typeof(labels) = 'object');
CREATE INDEX tasks_labelled ON tasks (created_at, n) WHERE labels IS NOT NULL;

-- People also label tasks that have ended.
DROP TRIGGER tasks_ended ON tasks;
CREATE TRIGGER tasks_ended BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('completed', 'failed', 'stopped') AND (NEW.payload_removed, NEW.has_messages, NEW.has_questions, NEW.has_checks)
        = (OLD.payload_removed, OLD.has_messages, OLD.has_questions, OLD.has_checks) AND NEW.labels IS NOT DISTINCT FROM OLD.labels)
    EXECUTE FUNCTION fleet_refuse('a task that has ended is never changed');

-- The star of a view stands for the columns that the table had when the view was created.
DROP VIEW task_usage;
CREATE VIEW task_usage AS
SELECT *,
    floor(extract(epoch FROM created_at) / 86400)::bigint AS day, -- since 1970, in UTC
    1 AS tasks, (status = 'completed')::integer AS completed, (status = 'failed')::integer AS failed, (status = 'stopped')::integer AS stopped,
    floor(least(cost_usd, 1e6) * 1e9 + 0.5) AS cost, -- billionths of a dollar; no report of an agent can make the sum infinite
    coalesce(extract(epoch FROM ended_at - started_at) * 1000000, 0)::double precision AS took
FROM tasks;
-- +goose StatementEnd
