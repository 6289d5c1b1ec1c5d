-- When Fleet began to collect the work of a run that has ended. Collecting can take minutes, so people must see it.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN collecting_at timestamptz CHECK (collecting_at IS NULL OR status IN ('pending', 'running'));
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN collecting_at;
-- +goose StatementEnd
