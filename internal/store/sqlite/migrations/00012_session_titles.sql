-- What sessions are about. Older programs can work with the schema: their sessions have no title.

-- +goose Up
ALTER TABLE sessions ADD COLUMN title TEXT NOT NULL DEFAULT '';
