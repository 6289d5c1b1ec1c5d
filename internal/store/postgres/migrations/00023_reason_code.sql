-- A code says for programs why a task failed. It replaces checks_failed, which older programs still write.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN reason_code text NOT NULL DEFAULT '' CHECK (reason_code = '' OR status = 'failed');
ALTER TABLE tasks ADD COLUMN retry_at timestamptz;
ALTER TABLE tasks ALTER COLUMN checks_failed SET DEFAULT false;
UPDATE tasks SET reason_code = 'CHECKS_FAILED' WHERE checks_failed;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks ALTER COLUMN checks_failed DROP DEFAULT;
ALTER TABLE tasks DROP COLUMN retry_at;
ALTER TABLE tasks DROP COLUMN reason_code;
-- +goose StatementEnd
