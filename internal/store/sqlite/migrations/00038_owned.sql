-- How many agents an owner has that are not deleted, by toolset. The triggers below count, so that a limit does not. The index that limits
-- counted with has no other use.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE owned (
    owner   TEXT    NOT NULL,
    toolset TEXT    NOT NULL,
    agents  INTEGER NOT NULL,
    PRIMARY KEY (owner, toolset)
) STRICT, WITHOUT ROWID;

INSERT INTO owned SELECT owner, toolset, count(*) FROM agents WHERE deleted_at IS NULL GROUP BY owner, toolset;

CREATE TRIGGER owned_agent_added AFTER INSERT ON agents WHEN NEW.deleted_at IS NULL
BEGIN
    INSERT INTO owned VALUES (NEW.owner, NEW.toolset, 1) ON CONFLICT DO UPDATE SET agents = agents + 1;
END;
CREATE TRIGGER owned_agent_changed AFTER UPDATE OF owner, toolset, deleted_at ON agents
    WHEN OLD.owner <> NEW.owner OR OLD.toolset <> NEW.toolset OR (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL)
BEGIN
    UPDATE owned SET agents = agents - (OLD.deleted_at IS NULL) WHERE owner = OLD.owner AND toolset = OLD.toolset;
    INSERT INTO owned VALUES (NEW.owner, NEW.toolset, NEW.deleted_at IS NULL) ON CONFLICT DO UPDATE SET agents = agents + excluded.agents;
END;

DROP INDEX agents_owned;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE INDEX agents_owned ON agents (owner, toolset, deleted_at) WHERE deleted_at IS NULL;
DROP TRIGGER owned_agent_changed;
DROP TRIGGER owned_agent_added;
DROP TABLE owned;
-- +goose StatementEnd
