-- The id of an agent's conversation, as the agent's program knows it.

-- +goose Up
ALTER TABLE agents ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
