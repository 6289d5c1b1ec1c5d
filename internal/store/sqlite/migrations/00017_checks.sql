-- Results of checks. After failed checks an agent tries again; attempts count from 0.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN try INTEGER NOT NULL DEFAULT 0 CHECK (try >= 0);
ALTER TABLE tasks ADD COLUMN checks_failed INTEGER NOT NULL DEFAULT 0 CHECK (checks_failed IN (0, 1) AND (checks_failed = 0 OR status = 'failed'));

CREATE TABLE task_checks (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    checks  TEXT NOT NULL CHECK (json_valid(checks))
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE task_checks;
ALTER TABLE tasks DROP COLUMN checks_failed;
ALTER TABLE tasks DROP COLUMN try;
-- +goose StatementEnd
