-- The groups of people who come from outside, as they were last seen: limits can be those of a group.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE identities ADD COLUMN member_of text NOT NULL DEFAULT ''; -- a JSON list; empty: none
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE identities DROP COLUMN member_of;
-- +goose StatementEnd
