-- What exists in a project is counted when an agent or a task is added to it.

-- +goose Up
-- +goose StatementBegin
CREATE INDEX agents_project ON agents (project, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX tasks_project ON tasks (project, status) WHERE status IN ('pending', 'running');
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX tasks_project;
DROP INDEX agents_project;
-- +goose StatementEnd
