-- Where bytes of a payload are missing, because it was longer than its limit.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE tasks ADD COLUMN payload_gap_offset INTEGER NOT NULL DEFAULT 0 CHECK (payload_gap_offset >= 0);
ALTER TABLE tasks ADD COLUMN payload_gap_size INTEGER NOT NULL DEFAULT 0 CHECK (payload_gap_size >= 0);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN payload_gap_offset;
ALTER TABLE tasks DROP COLUMN payload_gap_size;
-- +goose StatementEnd
