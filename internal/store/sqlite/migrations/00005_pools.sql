-- Tasks that wait for an agent of a pool or of a role have no agent until they start. Older programs cannot read them.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 5;

-- SQLite cannot drop a constraint of a column. Its documentation describes this way, which does not copy the rows.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'agent_uid          TEXT    NOT NULL REFERENCES', 'agent_uid          TEXT    REFERENCES')
    WHERE type = 'table' AND name = 'tasks';
PRAGMA writable_schema = RESET;

CREATE TRIGGER tasks_assigned AFTER UPDATE OF agent_uid ON tasks WHEN OLD.agent_uid IS NULL AND NEW.agent_uid IS NOT NULL
BEGIN
    UPDATE tasks SET (name_key, toolset) = (SELECT name_key, toolset FROM agents WHERE uid = NEW.agent_uid) WHERE n = NEW.n;
END;

-- The pool that the agent was made for; empty for agents that people create.
ALTER TABLE agents ADD COLUMN pool TEXT NOT NULL DEFAULT '';
-- After how many nanoseconds without a task it is deleted; 0 for never.
ALTER TABLE agents ADD COLUMN max_idle INTEGER NOT NULL DEFAULT 0;

-- What people declare and name, such as pools.
CREATE TABLE resources (
    kind     TEXT    NOT NULL,
    name     TEXT    NOT NULL CHECK (name <> ''),
    body     TEXT    NOT NULL CHECK (json_type(body) = 'object'),
    revision INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd
