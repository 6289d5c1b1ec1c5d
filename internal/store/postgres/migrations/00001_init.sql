-- Constraints enforce the rules that every program must keep. 'name_key' is the name in lower case, and 'n' the order of
-- insertion. Text is compared byte by byte, so that every database orders it in the same way.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE agents (
    n             bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    uid           text        COLLATE "C" PRIMARY KEY CHECK (uid <> ''),
    name          text        NOT NULL,
    name_key      text        COLLATE "C" NOT NULL,
    owner         text        COLLATE "C" NOT NULL,
    project       text        NOT NULL,
    role          text        NOT NULL,
    spec          text        NOT NULL,
    workspace_id  text        COLLATE "C" NOT NULL,
    location      text        NOT NULL,
    metadata      json        CHECK (json_typeof(metadata) = 'object'),
    state         text        NOT NULL CHECK (state IN (
        'pending', 'starting', 'running', 'stopping', 'stopped', 'failed',
        'canceling', 'canceled', 'deleting', 'deleted', 'unhealthy')),
    state_reason  text        NOT NULL,
    desired       text        NOT NULL CHECK (desired IN ('running', 'stopped', 'deleted')),
    restart       bigint      NOT NULL,
    restarted     bigint      NOT NULL,
    attempts      bigint      NOT NULL,
    retry_at      timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    toolset       text        COLLATE "C" NOT NULL,
    place         text        COLLATE "C" NOT NULL,
    one_task      boolean     NOT NULL,
    refused       text        NOT NULL,
    refused_field text        NOT NULL,
    conversed     boolean     NOT NULL,
    revision      bigint      NOT NULL
) WITH (fillfactor = 80);

-- Agent names are unique per owner, except those of deleted agents.
CREATE UNIQUE INDEX agents_name ON agents (name_key, owner) WHERE deleted_at IS NULL;
CREATE INDEX agents_workspace ON agents (workspace_id, created_at, n) WHERE workspace_id <> '';
CREATE INDEX agents_owned ON agents (owner, toolset) WHERE deleted_at IS NULL;
CREATE INDEX agents_ever ON agents (name_key, created_at, n);

-- Configurations of agents never change and can be large. A separate table keeps frequent writes of agents small.
CREATE TABLE recipes (
    agent_uid text COLLATE "C" PRIMARY KEY REFERENCES agents (uid),
    recipe    json NOT NULL CHECK (json_typeof(recipe) = 'object')
);

CREATE TABLE tasks (
    n                  bigint           GENERATED ALWAYS AS IDENTITY UNIQUE,
    id                 text             COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    agent_uid          text             COLLATE "C" NOT NULL REFERENCES agents (uid),
    agent_name         text             NOT NULL,
    name_key           text             COLLATE "C" NOT NULL, -- this and the next two are of the agent, so that lists need not look at agents
    project            text             NOT NULL,
    toolset            text             COLLATE "C" NOT NULL,
    owner              text             COLLATE "C" NOT NULL,
    source             text             NOT NULL CHECK (source IN ('agent', 'human', 'ai_controller')),
    status             text             NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'stopped')),
    reason             text             NOT NULL,
    timeout            bigint           NOT NULL, -- nanoseconds
    created_at         timestamptz      NOT NULL,
    started_at         timestamptz,
    ended_at           timestamptz,
    dispatched         timestamptz,
    cursor             text             NOT NULL,
    output_size        bigint           NOT NULL,
    stop_asked         timestamptz,
    stop_reason        text             NOT NULL,
    summary            text             NOT NULL,
    payload_size       bigint           NOT NULL,
    payload_gap_offset bigint           NOT NULL CHECK (payload_gap_offset >= 0),
    payload_gap_size   bigint           NOT NULL CHECK (payload_gap_size >= 0),
    payload_removed    boolean          NOT NULL DEFAULT false,
    exit_code          bigint,
    cost_usd           double precision NOT NULL,
    turns              bigint           NOT NULL,
    session_id         text             COLLATE "C" NOT NULL,
    model              text             NOT NULL,
    input_tokens       bigint           NOT NULL,
    output_tokens      bigint           NOT NULL,
    tool_calls         bigint           NOT NULL,
    self_started       boolean          NOT NULL,
    reported           boolean          NOT NULL,
    waiting            bigint           NOT NULL CHECK (waiting >= 0),
    stalled_at         timestamptz,
    last_step          text             NOT NULL,
    terminal           boolean          NOT NULL,
    conversation_lost  text             NOT NULL,
    try                bigint           NOT NULL CHECK (try >= 0),
    checks_failed      boolean          NOT NULL CHECK (NOT checks_failed OR status = 'failed'),
    description        text             NOT NULL, -- its first 4 KiB; what is beyond is in task_descriptions
    search             text             NOT NULL, -- description and summary in lower case
    revision           bigint           NOT NULL
) WITH (fillfactor = 80);

-- An agent has at most one active task.
CREATE UNIQUE INDEX tasks_active ON tasks (agent_uid) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_history ON tasks (agent_uid, created_at, n);
CREATE INDEX tasks_session ON tasks (session_id, created_at, n) WHERE session_id <> '';
CREATE INDEX tasks_owned ON tasks (owner) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_payload ON tasks (ended_at) WHERE payload_size > 0 AND NOT payload_removed;
-- These indexes cover all filters, so that only the rows of one page are read.
CREATE INDEX tasks_listed_owner ON tasks (owner, created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_listed ON tasks (created_at, n, status, source, toolset, project, name_key);

-- The extension is optional. Without it, text search uses no index.
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX tasks_text ON tasks USING gin (search gin_trgm_ops);
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'pg_trgm cannot be used, so searching tasks by text is slow: %', SQLERRM;
END $$;

CREATE FUNCTION fleet_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'FL001';
END $$;

CREATE TRIGGER tasks_ended BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('completed', 'failed', 'stopped') AND NEW.payload_removed = OLD.payload_removed)
    EXECUTE FUNCTION fleet_refuse('a task that has ended is never changed');

-- The part of a description after its first 4 KiB. A separate table keeps lists and frequent writes of tasks small.
CREATE TABLE task_descriptions (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    rest    text NOT NULL
);

CREATE TABLE payloads (
    task_id text   COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    size    bigint NOT NULL CHECK (size >= 0), -- bytes before compression
    gzip    bytea  NOT NULL
);
ALTER TABLE payloads ALTER COLUMN gzip SET STORAGE EXTERNAL;

CREATE TABLE task_changes (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    changes json NOT NULL
);

CREATE TABLE task_checks (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    checks  json NOT NULL
);

CREATE TABLE messages (
    n            bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    id           text        COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    task_id      text        COLLATE "C" NOT NULL REFERENCES tasks (id),
    text         text        NOT NULL,
    created_at   timestamptz NOT NULL,
    given_at     timestamptz,
    refused      text        NOT NULL,
    refused_text text        NOT NULL,
    CHECK (given_at IS NULL OR refused = '')
);

CREATE INDEX messages_task ON messages (task_id, n);
CREATE TRIGGER messages_settled BEFORE UPDATE ON messages FOR EACH ROW
    WHEN (OLD.given_at IS NOT NULL OR OLD.refused <> '')
    EXECUTE FUNCTION fleet_refuse('what has become of a message never changes');

CREATE TABLE questions (
    n           bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    id          text        COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    task_id     text        COLLATE "C" NOT NULL REFERENCES tasks (id),
    agent_uid   text        COLLATE "C" NOT NULL,
    agent_name  text        NOT NULL,
    name_key    text        COLLATE "C" NOT NULL, -- of the agent's name
    owner       text        COLLATE "C" NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('permission', 'question')),
    status      text        NOT NULL CHECK (status IN ('waiting', 'answered', 'expired', 'withdrawn')),
    text        text        NOT NULL,
    tool        text        NOT NULL,
    input       bytea,
    options     json        NOT NULL, -- a list
    asked_at    timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    answer      text        NOT NULL,
    message     text        NOT NULL,
    answered_by text        NOT NULL,
    answered_at timestamptz,
    given_at    timestamptz,
    CHECK (status <> 'waiting' OR answered_at IS NULL AND given_at IS NULL),
    CHECK (status <> 'answered' OR answered_at IS NOT NULL)
);

CREATE INDEX questions_task ON questions (task_id, n);
CREATE INDEX questions_owner ON questions (owner, n);
CREATE INDEX questions_waiting ON questions (n) WHERE status = 'waiting';
CREATE INDEX questions_not_given ON questions (task_id) WHERE status = 'answered' AND given_at IS NULL;
CREATE TRIGGER questions_settled BEFORE UPDATE ON questions FOR EACH ROW
    WHEN (OLD.given_at IS NOT NULL OR OLD.status IN ('expired', 'withdrawn') OR NEW.status = 'waiting')
    EXECUTE FUNCTION fleet_refuse('what has become of a question never changes');

-- Committed events without a number. fleet_stamp moves them into the log.
CREATE TABLE inbox (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time       timestamptz NOT NULL,
    type       text        NOT NULL,
    agent_uid  text        COLLATE "C" NOT NULL,
    agent_name text        NOT NULL,
    name_key   text        COLLATE "C" NOT NULL,
    owner      text        COLLATE "C" NOT NULL,
    task_id    text        COLLATE "C" NOT NULL,
    status     text        NOT NULL,
    text       text        NOT NULL,
    data       bytea
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The log. The transaction that adds a row holds the row of sequencer, so rows appear in the order of seq, without gaps to be
-- filled later.
CREATE TABLE events (
    seq        bigint      PRIMARY KEY,
    id         bigint      NOT NULL, -- in inbox
    time       timestamptz NOT NULL,
    type       text        NOT NULL,
    agent_uid  text        COLLATE "C" NOT NULL,
    agent_name text        NOT NULL,
    name_key   text        COLLATE "C" NOT NULL,
    owner      text        COLLATE "C" NOT NULL,
    task_id    text        COLLATE "C" NOT NULL,
    status     text        NOT NULL,
    text       text        NOT NULL,
    data       bytea
);

CREATE INDEX events_agent ON events (agent_uid, seq);
CREATE INDEX events_name ON events (name_key, seq);
CREATE INDEX events_owner ON events (owner, seq);
CREATE INDEX events_task ON events (task_id, seq) WHERE task_id <> '';
CREATE INDEX events_changes ON events (seq) INCLUDE (agent_uid) WHERE type <> 'task_output';
CREATE TRIGGER events_append_only BEFORE UPDATE ON events FOR EACH ROW
    EXECUTE FUNCTION fleet_refuse('an event is never changed');

-- The number of the newest event.
CREATE TABLE sequencer (
    id  integer PRIMARY KEY CHECK (id = 1),
    seq bigint  NOT NULL
) WITH (fillfactor = 10);

INSERT INTO sequencer (id, seq) VALUES (1, 0);

-- Stored bytes of text, output and payloads per owner, before compression: the sum of both tables. Writers only
-- add rows to stored_changes, so that they do not wait for each other; fleet_stamp sums them up.
CREATE TABLE stored (
    owner text   COLLATE "C" PRIMARY KEY,
    bytes bigint NOT NULL
);

CREATE TABLE stored_changes (
    owner text   COLLATE "C" NOT NULL,
    bytes bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX stored_changes_owner ON stored_changes (owner);

-- fleet_stamp gives events of the inbox the next numbers of the log, at most as many as most, and returns the numbers by their ids.
-- It is one statement for its caller and commits by itself, so a caller that is paused or dies does not hold others up.
CREATE FUNCTION fleet_stamp(most integer) RETURNS TABLE (stamped_id bigint, stamped_seq bigint) LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM inbox) AND NOT EXISTS (SELECT FROM stored_changes) THEN
        RETURN;
    END IF;
    SELECT s.seq INTO last FROM sequencer s WHERE s.id = 1 FOR UPDATE;
    -- A locked row is about to be deleted with its task.
    RETURN QUERY
        WITH chosen AS (
            SELECT i.id FROM inbox i ORDER BY i.id LIMIT most FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM inbox i USING chosen c WHERE i.id = c.id RETURNING i.*
        ), added AS (
            INSERT INTO events (seq, id, time, type, agent_uid, agent_name, name_key, owner, task_id, status, text, data)
            SELECT last + row_number() OVER (ORDER BY t.id), t.id, t.time, t.type, t.agent_uid, t.agent_name, t.name_key, t.owner,
                t.task_id, t.status, t.text, t.data
            FROM taken t RETURNING seq, id, owner, octet_length(text) + coalesce(octet_length(data), 0) AS bytes
        ), counted AS (
            UPDATE sequencer s SET seq = last + m.n FROM (SELECT count(*) AS n FROM added) m WHERE s.id = 1 AND m.n > 0
        ), sums AS (
            DELETE FROM stored_changes RETURNING owner, bytes
        ), summed AS (
            INSERT INTO stored AS o (owner, bytes)
            SELECT b.owner, sum(b.bytes) FROM (
                SELECT a.owner, a.bytes FROM added a UNION ALL SELECT c.owner, c.bytes FROM sums c
            ) b GROUP BY b.owner
            ON CONFLICT (owner) DO UPDATE SET bytes = o.bytes + excluded.bytes
        )
        SELECT a.id, a.seq FROM added a;
END $$;

CREATE FUNCTION fleet_stored_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -octet_length(OLD.description) - octet_length(OLD.summary);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + octet_length(NEW.description) + octet_length(NEW.summary);
    END IF;
    IF delta <> 0 THEN
        INSERT INTO stored_changes (owner, bytes) VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.owner ELSE NEW.owner END, delta);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_task AFTER INSERT OR DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION fleet_stored_task();
CREATE TRIGGER stored_task_changed AFTER UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.description <> NEW.description OR OLD.summary <> NEW.summary) EXECUTE FUNCTION fleet_stored_task();

CREATE FUNCTION fleet_stored_rest() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -octet_length(OLD.rest);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + octet_length(NEW.rest);
    END IF;
    INSERT INTO stored_changes (owner, bytes)
        SELECT owner, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_rest AFTER INSERT OR UPDATE OR DELETE ON task_descriptions FOR EACH ROW EXECUTE FUNCTION fleet_stored_rest();

CREATE FUNCTION fleet_stored_payload() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -OLD.size;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + NEW.size;
    END IF;
    INSERT INTO stored_changes (owner, bytes)
        SELECT owner, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_payload AFTER INSERT OR UPDATE OR DELETE ON payloads FOR EACH ROW EXECUTE FUNCTION fleet_stored_payload();

CREATE FUNCTION fleet_stored_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_changes (owner, bytes)
        SELECT owner, -sum(octet_length(text) + coalesce(octet_length(data), 0)) FROM gone GROUP BY owner;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_events AFTER DELETE ON events REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_stored_events();

CREATE TABLE requests (
    principal  text        COLLATE "C" NOT NULL,
    id         text        COLLATE "C" NOT NULL,
    method     text        NOT NULL,
    body_hash  text        NOT NULL,
    agent_uid  text        NOT NULL,
    task_id    text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (principal, id)
);

CREATE INDEX requests_created ON requests (created_at);

CREATE TABLE tokens (
    n          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text        COLLATE "C" NOT NULL CHECK (name <> ''),
    kind       text        NOT NULL CHECK (kind IN ('human', 'controller', 'agent')),
    admin      boolean     NOT NULL,
    hash       text        COLLATE "C" NOT NULL CHECK (hash <> ''),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    agent_uid  text        COLLATE "C" NOT NULL
);

-- Token names are unique, except those of revoked tokens.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX tokens_hash ON tokens (hash);
CREATE INDEX tokens_agent ON tokens (agent_uid) WHERE agent_uid <> '' AND revoked_at IS NULL;
CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE agent_uid <> '';

CREATE TABLE sessions (
    n            bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    id           text        COLLATE "C" PRIMARY KEY CHECK (id <> ''),
    toolset      text        COLLATE "C" NOT NULL,
    owner        text        COLLATE "C" NOT NULL,
    name         text        NOT NULL,
    key          text        COLLATE "C" NOT NULL,
    agent        text        NOT NULL,
    source       text        NOT NULL,
    agent_uid    text        NOT NULL,
    messages     bigint      NOT NULL,
    created_at   timestamptz NOT NULL,
    used_at      timestamptz NOT NULL,
    closed_at    timestamptz,
    close_reason text        NOT NULL,
    revision     bigint      NOT NULL
) WITH (fillfactor = 80);

-- Keys of open sessions are unique per owner and toolset.
CREATE UNIQUE INDEX sessions_key ON sessions (toolset, owner, key) WHERE key <> '' AND closed_at IS NULL;
CREATE INDEX sessions_open ON sessions (toolset, owner, used_at) WHERE closed_at IS NULL;

CREATE TABLE tools (
    n          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner      text        COLLATE "C" NOT NULL,
    name       text        COLLATE "C" NOT NULL CHECK (name <> ''),
    agent      text        COLLATE "C" NOT NULL, -- '' for every agent
    tool       json        NOT NULL CHECK (json_typeof(tool) = 'object'),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    UNIQUE (owner, name, agent)
);

-- Work of deleted agents, as a git bundle, and what may be lost.
CREATE TABLE agent_remains (
    agent_uid text        COLLATE "C" PRIMARY KEY,
    kept_at   timestamptz NOT NULL,
    size      bigint      NOT NULL CHECK (size >= 0), -- of the bundle, in bytes
    lost      text        NOT NULL,
    bundle    bytea       NOT NULL
);
ALTER TABLE agent_remains ALTER COLUMN bundle SET STORAGE EXTERNAL;

CREATE INDEX agent_remains_time ON agent_remains (kept_at);

CREATE SEQUENCE lease_epochs;

CREATE TABLE leases (
    key   text        COLLATE "C" PRIMARY KEY,
    owner text        COLLATE "C" NOT NULL,
    until timestamptz NOT NULL,
    epoch bigint      NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX leases_owner ON leases (owner);

-- Times at which something was last done, shared by all processes.
CREATE TABLE notes (
    key text        COLLATE "C" PRIMARY KEY,
    at  timestamptz NOT NULL
);

-- Secrets of the server itself, shared by all servers of a database. None belongs to a user.
CREATE TABLE secrets (
    name  text  COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE secrets, notes, leases, agent_remains, tools, sessions, tokens, requests, stored_changes, stored, sequencer, events, inbox,
    questions, messages, task_checks, task_changes, payloads, task_descriptions, tasks, recipes, agents;
DROP SEQUENCE lease_epochs;
DROP FUNCTION fleet_stamp, fleet_stored_task, fleet_stored_rest, fleet_stored_payload, fleet_stored_events, fleet_refuse;
-- +goose StatementEnd
