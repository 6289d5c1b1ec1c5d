-- Fleet asks whether a task goes on that has used up a budget. Older programs would start the task without an answer.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 7;

-- See 00005_pools.sql for why.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(sql,
        'kind IN (''permission'', ''question'')', 'kind IN (''permission'', ''question'', ''budget'')'),
        'expires_at  INTEGER NOT NULL', 'expires_at  INTEGER')
    WHERE type = 'table' AND name = 'questions';
PRAGMA writable_schema = RESET;
-- +goose StatementEnd
