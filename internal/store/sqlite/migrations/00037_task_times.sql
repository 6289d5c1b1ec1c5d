-- Numbers of tasks rise nearly as their times do. This says when they do: a search that begins with the highest numbers may end if no task with a lower
-- number can be as new as what it has found.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE task_times (
    block  INTEGER NOT NULL PRIMARY KEY, -- a thousand numbers
    latest INTEGER NOT NULL -- at least created_at of each of its tasks
) STRICT;

INSERT INTO task_times SELECT n / 1000, max(created_at) FROM tasks GROUP BY n / 1000;

CREATE TRIGGER task_times_added AFTER INSERT ON tasks
BEGIN
    INSERT INTO task_times VALUES (NEW.n / 1000, NEW.created_at) ON CONFLICT DO UPDATE SET latest = max(latest, excluded.latest);
END;
CREATE TRIGGER task_times_changed AFTER UPDATE OF created_at ON tasks WHEN NEW.created_at > OLD.created_at
BEGIN
    UPDATE task_times SET latest = max(latest, NEW.created_at) WHERE block = NEW.n / 1000;
END;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER task_times_changed;
DROP TRIGGER task_times_added;
DROP TABLE task_times;
-- +goose StatementEnd
