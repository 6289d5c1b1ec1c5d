-- Each filter of tasks that many or few tasks may match has an index in the order of lists.

-- +goose Up
-- +goose StatementBegin
CREATE INDEX tasks_listed_toolset ON tasks (toolset, created_at, n, status, source, project);
CREATE INDEX tasks_listed_project ON tasks (project, created_at, n, status, source, toolset);
CREATE INDEX tasks_listed_source ON tasks (source, created_at, n, status, toolset, project);
-- Of those that are completed, every page of another list has some.
CREATE INDEX tasks_listed_status ON tasks (status, created_at, n, source, toolset, project, owner) WHERE status <> 'completed';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX tasks_listed_status, tasks_listed_source, tasks_listed_project, tasks_listed_toolset;
-- +goose StatementEnd
