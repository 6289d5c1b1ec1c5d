-- Why the host refused to create an agent.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN refused TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN refused_field TEXT NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE agents DROP COLUMN refused_field;
ALTER TABLE agents DROP COLUMN refused;
-- +goose StatementEnd
