-- Tasks that wait for an agent of a pool or of a role have no agent until they start. Older programs cannot read them.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 5;

ALTER TABLE tasks ALTER COLUMN agent_uid DROP NOT NULL;

CREATE FUNCTION fleet_task_assigned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT a.name_key, a.toolset INTO NEW.name_key, NEW.toolset FROM agents AS a WHERE a.uid = NEW.agent_uid;
    RETURN NEW;
END;
$$;
CREATE TRIGGER tasks_assigned BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.agent_uid IS NULL AND NEW.agent_uid IS NOT NULL) EXECUTE FUNCTION fleet_task_assigned();

-- The pool that the agent was made for; empty for agents that people create.
ALTER TABLE agents ADD COLUMN pool text NOT NULL DEFAULT '';
-- After how many nanoseconds without a task it is deleted; 0 for never.
ALTER TABLE agents ADD COLUMN max_idle bigint NOT NULL DEFAULT 0;

-- What people declare and name, such as pools.
CREATE TABLE resources (
    kind     text   COLLATE "C" NOT NULL,
    name     text   COLLATE "C" NOT NULL CHECK (name <> ''),
    body     json   NOT NULL CHECK (json_typeof(body) = 'object'),
    revision bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
-- +goose StatementEnd
