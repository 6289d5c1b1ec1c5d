-- The trace of the call that wanted something of an agent, or that started a task, as a W3C traceparent. What is done
-- about it later belongs to the same trace.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN traceparent;
ALTER TABLE agents DROP COLUMN traceparent;
-- +goose StatementEnd
