-- Whether agents have a conversation, and why a task could not continue it.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE agents ADD COLUMN conversed INTEGER NOT NULL DEFAULT 0 CHECK (conversed IN (0, 1));
ALTER TABLE tasks ADD COLUMN conversation_lost TEXT NOT NULL DEFAULT '';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE tasks DROP COLUMN conversation_lost;
ALTER TABLE agents DROP COLUMN conversed;
-- +goose StatementEnd
