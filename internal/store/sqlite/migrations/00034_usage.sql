-- What the tasks of a day have used, so that sums over many tasks need not read them. A task is added when it ends; it does not change afterwards.

-- +goose Up
-- +goose StatementBegin
-- What each task counts. Sums of these numbers are exact up to 2^53, so they do not depend on the order in which they are added up.
CREATE VIEW task_usage AS
SELECT *,
    created_at / 86400000000 AS day, -- since 1970, in UTC
    1 AS tasks, status = 'completed' AS completed, status = 'failed' AS failed, status = 'stopped' AS stopped,
    round(min(cost_usd, 1e6) * 1e9) AS cost, -- billionths of a dollar; no report of an agent can make the sum infinite
    coalesce(ended_at - started_at, 0) AS took
FROM tasks;

-- REAL, because a sum of integers that is too large would fail the end of a task.
CREATE TABLE usage_days (
    day           INTEGER NOT NULL,
    owner         TEXT    NOT NULL,
    project       TEXT    NOT NULL,
    tasks         REAL    NOT NULL,
    completed     REAL    NOT NULL,
    failed        REAL    NOT NULL,
    stopped       REAL    NOT NULL,
    cost          REAL    NOT NULL,
    input_tokens  REAL    NOT NULL,
    output_tokens REAL    NOT NULL,
    tool_calls    REAL    NOT NULL,
    took          REAL    NOT NULL, -- microseconds
    PRIMARY KEY (day, owner, project)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_days
SELECT day, owner, project, total(tasks), total(completed), total(failed), total(stopped), total(cost), total(input_tokens), total(output_tokens),
    total(tool_calls), total(took)
FROM task_usage WHERE status NOT IN ('pending', 'running') GROUP BY day, owner, project;

CREATE TRIGGER usage_task_added AFTER INSERT ON tasks WHEN NEW.status NOT IN ('pending', 'running')
BEGIN
    INSERT INTO usage_days
        SELECT day, owner, project, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took
        FROM task_usage WHERE n = NEW.n
        ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks, completed = completed + excluded.completed,
            failed = failed + excluded.failed, stopped = stopped + excluded.stopped, cost = cost + excluded.cost,
            input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
            tool_calls = tool_calls + excluded.tool_calls, took = took + excluded.took;
END;
CREATE TRIGGER usage_task_ended AFTER UPDATE OF status ON tasks
    WHEN OLD.status IN ('pending', 'running') AND NEW.status NOT IN ('pending', 'running')
BEGIN
    INSERT INTO usage_days
        SELECT day, owner, project, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took
        FROM task_usage WHERE n = NEW.n
        ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks, completed = completed + excluded.completed,
            failed = failed + excluded.failed, stopped = stopped + excluded.stopped, cost = cost + excluded.cost,
            input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
            tool_calls = tool_calls + excluded.tool_calls, took = took + excluded.took;
END;
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks WHEN OLD.status NOT IN ('pending', 'running')
BEGIN
    UPDATE usage_days AS d SET tasks = d.tasks - t.tasks, completed = d.completed - t.completed, failed = d.failed - t.failed,
        stopped = d.stopped - t.stopped, cost = d.cost - t.cost, input_tokens = d.input_tokens - t.input_tokens,
        output_tokens = d.output_tokens - t.output_tokens, tool_calls = d.tool_calls - t.tool_calls, took = d.took - t.took
        FROM task_usage AS t WHERE t.n = OLD.n AND d.day = t.day AND d.owner = t.owner AND d.project = t.project;
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER usage_task_removed;
DROP TRIGGER usage_task_ended;
DROP TRIGGER usage_task_added;
DROP TABLE usage_days;
DROP VIEW task_usage;
-- +goose StatementEnd
