-- What the tasks of a day have used, so that sums over many tasks need not read them. A task is added when it ends; it does not change
-- afterwards. As for stored bytes, writers only add rows to stored_changes, and fleet_stamp sums them up.

-- +goose Up
-- +goose StatementBegin
LOCK TABLE tasks, stored_changes IN SHARE ROW EXCLUSIVE MODE; -- what ends meanwhile would not be counted

-- What each task counts. Sums of these numbers are exact up to 2^53, so they do not depend on the order in which they are added up.
CREATE VIEW task_usage AS
SELECT *,
    floor(extract(epoch FROM created_at) / 86400)::bigint AS day, -- since 1970, in UTC
    1 AS tasks, (status = 'completed')::integer AS completed, (status = 'failed')::integer AS failed, (status = 'stopped')::integer AS stopped,
    floor(least(cost_usd, 1e6) * 1e9 + 0.5) AS cost, -- billionths of a dollar; no report of an agent can make the sum infinite
    coalesce(extract(epoch FROM ended_at - started_at) * 1000000, 0)::double precision AS took
FROM tasks;

-- Floating point, because a sum of integers that is too large would fail fleet_stamp.
CREATE TABLE usage_days (
    day           bigint           NOT NULL,
    owner         text             COLLATE "C" NOT NULL,
    project       text             COLLATE "C" NOT NULL,
    tasks         double precision NOT NULL,
    completed     double precision NOT NULL,
    failed        double precision NOT NULL,
    stopped       double precision NOT NULL,
    cost          double precision NOT NULL,
    input_tokens  double precision NOT NULL,
    output_tokens double precision NOT NULL,
    tool_calls    double precision NOT NULL,
    took          double precision NOT NULL, -- microseconds
    PRIMARY KEY (day, owner, project)
);

INSERT INTO usage_days
SELECT day, owner, project, sum(tasks), sum(completed), sum(failed), sum(stopped), sum(cost), sum(input_tokens), sum(output_tokens),
    sum(tool_calls), sum(took)
FROM task_usage WHERE status NOT IN ('pending', 'running') GROUP BY day, owner, project;

-- Rows with a day have a change of usage, and no bytes.
ALTER TABLE stored_changes
    ADD COLUMN day bigint, ADD COLUMN tasks integer, ADD COLUMN completed integer, ADD COLUMN failed integer, ADD COLUMN stopped integer,
    ADD COLUMN cost double precision, ADD COLUMN input_tokens double precision, ADD COLUMN output_tokens double precision,
    ADD COLUMN tool_calls double precision, ADD COLUMN took double precision;

CREATE FUNCTION fleet_usage_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sign integer := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
BEGIN
    INSERT INTO stored_changes (owner, project, bytes, day, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took)
        SELECT owner, project, 0, day, sign * tasks, sign * completed, sign * failed, sign * stopped, sign * cost,
            sign * input_tokens::double precision, sign * output_tokens::double precision, sign * tool_calls::double precision, sign * took
        FROM task_usage WHERE n = CASE TG_OP WHEN 'DELETE' THEN OLD.n ELSE NEW.n END;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER usage_task_added AFTER INSERT ON tasks FOR EACH ROW
    WHEN (NEW.status NOT IN ('pending', 'running')) EXECUTE FUNCTION fleet_usage_task();
CREATE TRIGGER usage_task_ended AFTER UPDATE OF status ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('pending', 'running') AND NEW.status NOT IN ('pending', 'running')) EXECUTE FUNCTION fleet_usage_task();
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks FOR EACH ROW
    WHEN (OLD.status NOT IN ('pending', 'running')) EXECUTE FUNCTION fleet_usage_task();

-- It runs in fleet_stamp, which holds the row of sequencer, so that no two write usage_days at the same time.
CREATE FUNCTION fleet_usage_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_days AS d (day, owner, project, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took)
        SELECT day, owner, project, sum(tasks), sum(completed), sum(failed), sum(stopped), sum(cost), sum(input_tokens), sum(output_tokens),
            sum(tool_calls), sum(took)
        FROM summed WHERE day IS NOT NULL GROUP BY day, owner, project
        ON CONFLICT (day, owner, project) DO UPDATE SET tasks = d.tasks + excluded.tasks, completed = d.completed + excluded.completed,
            failed = d.failed + excluded.failed, stopped = d.stopped + excluded.stopped, cost = d.cost + excluded.cost,
            input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
            tool_calls = d.tool_calls + excluded.tool_calls, took = d.took + excluded.took;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_changes AFTER DELETE ON stored_changes REFERENCING OLD TABLE AS summed
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_usage_changes();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER usage_changes ON stored_changes;
DROP FUNCTION fleet_usage_changes;
DROP TRIGGER usage_task_removed ON tasks;
DROP TRIGGER usage_task_ended ON tasks;
DROP TRIGGER usage_task_added ON tasks;
DROP FUNCTION fleet_usage_task;
ALTER TABLE stored_changes
    DROP COLUMN day, DROP COLUMN tasks, DROP COLUMN completed, DROP COLUMN failed, DROP COLUMN stopped, DROP COLUMN cost,
    DROP COLUMN input_tokens, DROP COLUMN output_tokens, DROP COLUMN tool_calls, DROP COLUMN took;
DROP TABLE usage_days;
DROP VIEW task_usage;
-- +goose StatementEnd
