-- Constraints enforce the rules that every program must keep. 'name_key' is the name in lower case, and 'n' the order of
-- insertion. Text is compared byte by byte, so that every database orders it in the same way.

-- +goose Up
-- +goose StatementBegin

-- The least version that a program must know to work with this schema. A migration that older programs cannot work with sets it to its
-- own number; others leave it alone.
CREATE TABLE compatibility (
    id     integer PRIMARY KEY CHECK (id = 1),
    oldest bigint  NOT NULL
);
INSERT INTO compatibility (id, oldest) VALUES (1, 1);

CREATE TABLE agents (
    n             bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    uid           text        COLLATE "C" PRIMARY KEY CHECK (uid <> ''),
    name          text        NOT NULL,
    name_key      text        COLLATE "C" NOT NULL,
    owner         text        COLLATE "C" NOT NULL,
    project       text        NOT NULL,
    role          text        NOT NULL,
    spec          text        NOT NULL,
    toolset       text        COLLATE "C" NOT NULL,
    place         text        COLLATE "C" NOT NULL,
    workspace_id  text        COLLATE "C" NOT NULL,
    location      text        NOT NULL,
    metadata      json        CHECK (json_typeof(metadata) = 'object'),
    parameters    json        CHECK (json_typeof(parameters) = 'object'), -- what a caller has chosen for the workspace
    host          json        CHECK (json_typeof(host) = 'object'), -- what the host reports about the workspace
    next_start    json        CHECK (json_typeof(next_start) = 'object'), -- what the next start changes
    shares        json        CHECK (json_typeof(shares) = 'array'), -- people and groups; NULL: none
    rules         json        CHECK (json_typeof(rules) = 'array'), -- what people have allowed by answering questions
    state         text        NOT NULL CHECK (state IN (
        'pending', 'starting', 'running', 'stopping', 'stopped', 'failed',
        'canceling', 'canceled', 'deleting', 'deleted', 'unhealthy')),
    state_reason  text        NOT NULL,
    desired       text        NOT NULL CHECK (desired IN ('running', 'stopped', 'deleted')),
    restart       bigint      NOT NULL,
    restarted     bigint      NOT NULL,
    attempts      bigint      NOT NULL,
    retry_at      timestamptz,
    refused       text        NOT NULL, -- why the host refused to create the agent
    refused_field text        NOT NULL,
    one_task      boolean     NOT NULL,
    conversed     boolean     NOT NULL, -- whether it has a conversation
    traceparent   text        NOT NULL, -- W3C's, of the call that wanted something of the agent; what is done about it belongs to the same trace
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    revision      bigint      NOT NULL
) WITH (fillfactor = 80);

-- Agent names are unique per owner, except those of deleted agents.
CREATE UNIQUE INDEX agents_name ON agents (name_key, owner) WHERE deleted_at IS NULL;
CREATE INDEX agents_workspace ON agents (workspace_id, created_at, n) WHERE workspace_id <> '';
CREATE INDEX agents_owned ON agents (owner, toolset) WHERE deleted_at IS NULL;
CREATE INDEX agents_ever ON agents (name_key, created_at, n);
CREATE INDEX agents_project ON agents (project, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX agents_shared ON agents (uid) WHERE shares IS NOT NULL;

-- Configurations of agents never change and can be large. A separate table keeps frequent writes of agents small.
CREATE TABLE agent_configs (
    agent_uid text COLLATE "C" PRIMARY KEY REFERENCES agents (uid),
    config    json NOT NULL CHECK (json_typeof(config) = 'object')
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
    self_started       boolean          NOT NULL, -- whether the agent started it by itself
    session_id         text             COLLATE "C" NOT NULL,
    retry_of           text             NOT NULL, -- the task that this one has started again
    status             text             NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'stopped')),
    reason             text             NOT NULL,
    reason_code        text             NOT NULL CHECK (reason_code = '' OR status = 'failed'),
    retry_at           timestamptz,
    timeout            bigint           NOT NULL, -- nanoseconds
    options            text             NOT NULL, -- for the agent's program, as a JSON object; empty if none is set
    created_at         timestamptz      NOT NULL,
    started_at         timestamptz,
    ended_at           timestamptz,
    dispatched         timestamptz,
    collecting_at      timestamptz      CHECK (collecting_at IS NULL OR status IN ('pending', 'running')), -- when Fleet began to collect the work of its run
    stop_asked         timestamptz,
    stop_reason        text             NOT NULL,
    waiting            bigint           NOT NULL CHECK (waiting >= 0),
    stalled_at         timestamptz, -- since when it makes no progress
    last_step          text             NOT NULL,
    try                bigint           NOT NULL CHECK (try >= 0), -- after failed checks an agent tries again
    conversation_lost  text             NOT NULL, -- why it could not continue the agent's conversation
    reported           boolean          NOT NULL, -- whether the agent itself reported the end
    terminal           boolean          NOT NULL, -- whether the output was read from the agent's terminal
    cursor             text             NOT NULL,
    output_size        bigint           NOT NULL,
    exit_code          bigint,
    summary            text             NOT NULL,
    output             text             NOT NULL, -- of a task with a schema, as JSON
    payload_size       bigint           NOT NULL,
    payload_gap_offset bigint           NOT NULL CHECK (payload_gap_offset >= 0), -- where bytes are missing, because it was longer than its limit
    payload_gap_size   bigint           NOT NULL CHECK (payload_gap_size >= 0),
    payload_removed    boolean          NOT NULL DEFAULT false,
    cost_usd           double precision NOT NULL,
    turns              bigint           NOT NULL,
    model              text             NOT NULL,
    input_tokens       bigint           NOT NULL,
    output_tokens      bigint           NOT NULL,
    tool_calls         bigint           NOT NULL,
    spent              text, -- by model, and the basis of the cost, as JSON
    has_messages       boolean          NOT NULL DEFAULT false, -- so that nobody looks for those that are not there
    has_questions      boolean          NOT NULL DEFAULT false,
    has_checks         boolean          NOT NULL DEFAULT false,
    traceparent        text             NOT NULL, -- W3C's, of the call that started it
    description        text             NOT NULL, -- its first 4 KiB; what is beyond is in task_descriptions
    search             text             NOT NULL, -- description and summary in lower case
    revision           bigint           NOT NULL
) WITH (fillfactor = 80);

-- An agent has at most one active task.
CREATE UNIQUE INDEX tasks_active ON tasks (agent_uid) WHERE status IN ('pending', 'running');
-- The same with a condition that no other index has: indexes with the condition of tasks_active all look as good to a query for the task
-- while nothing runs.
CREATE INDEX tasks_current ON tasks (agent_uid)
    WHERE CASE status WHEN 'pending' THEN true WHEN 'running' THEN true ELSE false END;
CREATE INDEX tasks_history ON tasks (agent_uid, created_at, n);
CREATE INDEX tasks_session ON tasks (session_id, created_at, n) WHERE session_id <> '';
CREATE INDEX tasks_owned ON tasks (owner) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_project ON tasks (project, status) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_payload ON tasks (ended_at) WHERE payload_size > 0 AND NOT payload_removed;
-- Each filter that many or few tasks may match has an index in the order of lists, which covers the other filters, so that only the rows
-- of one page are read. Of the tasks that are completed, every page of another list has some.
CREATE INDEX tasks_listed ON tasks (created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_listed_owner ON tasks (owner, created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_listed_toolset ON tasks (toolset, created_at, n, status, source, project);
CREATE INDEX tasks_listed_project ON tasks (project, created_at, n, status, source, toolset);
CREATE INDEX tasks_listed_source ON tasks (source, created_at, n, status, toolset, project);
CREATE INDEX tasks_listed_status ON tasks (status, created_at, n, source, toolset, project, owner) WHERE status <> 'completed';

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

-- The checks of a contract are run when its task has ended.
CREATE TRIGGER tasks_ended BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('completed', 'failed', 'stopped') AND (NEW.payload_removed, NEW.has_messages, NEW.has_questions, NEW.has_checks)
        = (OLD.payload_removed, OLD.has_messages, OLD.has_questions, OLD.has_checks))
    EXECUTE FUNCTION fleet_refuse('a task that has ended is never changed');

-- Its argument is the column.
CREATE FUNCTION fleet_task_has() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_ARGV[0]
        WHEN 'has_messages' THEN UPDATE tasks SET has_messages = true WHERE id = NEW.task_id AND NOT has_messages;
        WHEN 'has_questions' THEN UPDATE tasks SET has_questions = true WHERE id = NEW.task_id AND NOT has_questions;
        WHEN 'has_checks' THEN UPDATE tasks SET has_checks = true WHERE id = NEW.task_id AND NOT has_checks;
    END CASE;
    RETURN NULL;
END $$;

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

CREATE TABLE task_attachments (
    task_id    text    COLLATE "C" NOT NULL REFERENCES tasks (id),
    n          integer NOT NULL,
    name       text    COLLATE "C" NOT NULL CHECK (name <> ''),
    media_type text    NOT NULL,
    size       bigint  NOT NULL CHECK (size > 0),
    content    bytea   NOT NULL,
    PRIMARY KEY (task_id, n),
    UNIQUE (task_id, name)
);

CREATE TABLE task_changes (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    changes json NOT NULL
);

CREATE TABLE task_checks (
    task_id text COLLATE "C" PRIMARY KEY REFERENCES tasks (id),
    checks  json NOT NULL
);
CREATE TRIGGER task_has_checks AFTER INSERT ON task_checks FOR EACH ROW EXECUTE FUNCTION fleet_task_has('has_checks');

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
CREATE TRIGGER task_has_messages AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION fleet_task_has('has_messages');

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
    options     json        NOT NULL, -- a JSON list
    rules       json        CHECK (json_typeof(rules) = 'array'), -- what an answer can allow
    remember    text        NOT NULL CHECK (remember IN ('', 'once', 'task', 'agent')), -- for how long the answer allows it
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
CREATE TRIGGER task_has_questions AFTER INSERT ON questions FOR EACH ROW EXECUTE FUNCTION fleet_task_has('has_questions');

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

-- How many bytes of text, output, payloads and attachments are stored for an owner, and for the tasks of a project, before compression: the
-- sum of a row and of its rows in stored_changes. Writers only add rows to stored_changes, so that they do not wait for each other;
-- fleet_stamp sums them up.
CREATE TABLE stored (
    owner text   COLLATE "C" PRIMARY KEY,
    bytes bigint NOT NULL
);
CREATE TABLE stored_projects (
    project text   PRIMARY KEY,
    bytes   bigint NOT NULL
);

-- What the tasks of a day have used, so that sums over many tasks need not read them. A task is added when it ends; it does not change
-- afterwards. Floating point, because a sum of integers that is too large would fail fleet_stamp.
CREATE TABLE usage_days (
    day           bigint           NOT NULL,
    owner         text             COLLATE "C" NOT NULL,
    project       text             COLLATE "C" NOT NULL,
    tasks         double precision NOT NULL,
    completed     double precision NOT NULL,
    failed        double precision NOT NULL,
    stopped       double precision NOT NULL,
    cost          double precision NOT NULL,
    input_tokens  double precision NOT NULL,
    output_tokens double precision NOT NULL,
    tool_calls    double precision NOT NULL,
    took          double precision NOT NULL, -- microseconds
    PRIMARY KEY (day, owner, project)
);

-- Rows with a day have a change of usage_days, and no bytes.
CREATE TABLE stored_changes (
    owner         text    COLLATE "C" NOT NULL,
    project       text, -- NULL or empty if it is for no project
    bytes         bigint  NOT NULL,
    day           bigint,
    tasks         integer,
    completed     integer,
    failed        integer,
    stopped       integer,
    cost          double precision,
    input_tokens  double precision,
    output_tokens double precision,
    tool_calls    double precision,
    took          double precision
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
        INSERT INTO stored_changes (owner, project, bytes) VALUES (
            CASE TG_OP WHEN 'DELETE' THEN OLD.owner ELSE NEW.owner END, CASE TG_OP WHEN 'DELETE' THEN OLD.project ELSE NEW.project END, delta);
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
    INSERT INTO stored_changes (owner, project, bytes)
        SELECT owner, project, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
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
    INSERT INTO stored_changes (owner, project, bytes)
        SELECT owner, project, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER stored_payload AFTER INSERT OR UPDATE OR DELETE ON payloads FOR EACH ROW EXECUTE FUNCTION fleet_stored_payload();
CREATE TRIGGER stored_attachment AFTER INSERT OR DELETE ON task_attachments FOR EACH ROW EXECUTE FUNCTION fleet_stored_payload();

CREATE FUNCTION fleet_stored_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_changes (owner, project, bytes)
        SELECT g.owner, t.project, -sum(octet_length(g.text) + coalesce(octet_length(g.data), 0))
        FROM gone g LEFT JOIN tasks t ON g.task_id <> '' AND t.id = g.task_id GROUP BY g.owner, t.project;
    RETURN NULL;
END $$;

CREATE TRIGGER stored_events AFTER DELETE ON events REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_stored_events();

-- Both triggers run in fleet_stamp, which holds the row of sequencer, so that no two write stored_projects at the same time.
CREATE FUNCTION fleet_stored_project_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_projects AS s (project, bytes)
        SELECT t.project, sum(octet_length(a.text) + coalesce(octet_length(a.data), 0))
        FROM added a JOIN tasks t ON t.id = a.task_id WHERE a.task_id <> '' AND t.project <> '' GROUP BY t.project
        ON CONFLICT (project) DO UPDATE SET bytes = s.bytes + excluded.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_project_events AFTER INSERT ON events REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_stored_project_events();

CREATE FUNCTION fleet_stored_project_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_projects AS s (project, bytes)
        SELECT project, sum(bytes) FROM summed WHERE project <> '' GROUP BY project
        ON CONFLICT (project) DO UPDATE SET bytes = s.bytes + excluded.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_project_changes AFTER DELETE ON stored_changes REFERENCING OLD TABLE AS summed
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_stored_project_changes();

-- What each task counts. Sums of these numbers are exact up to 2^53, so they do not depend on the order in which they are added up.
CREATE VIEW task_usage AS
SELECT *,
    floor(extract(epoch FROM created_at) / 86400)::bigint AS day, -- since 1970, in UTC
    1 AS tasks, (status = 'completed')::integer AS completed, (status = 'failed')::integer AS failed, (status = 'stopped')::integer AS stopped,
    floor(least(cost_usd, 1e6) * 1e9 + 0.5) AS cost, -- billionths of a dollar; no report of an agent can make the sum infinite
    coalesce(extract(epoch FROM ended_at - started_at) * 1000000, 0)::double precision AS took
FROM tasks;

CREATE FUNCTION fleet_usage_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sign integer := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
BEGIN
    INSERT INTO stored_changes (owner, project, bytes, day, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took)
        SELECT owner, project, 0, day, sign * tasks, sign * completed, sign * failed, sign * stopped, sign * cost,
            sign * input_tokens::double precision, sign * output_tokens::double precision, sign * tool_calls::double precision, sign * took
        FROM task_usage WHERE n = CASE TG_OP WHEN 'DELETE' THEN OLD.n ELSE NEW.n END;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER usage_task_added AFTER INSERT ON tasks FOR EACH ROW
    WHEN (NEW.status NOT IN ('pending', 'running')) EXECUTE FUNCTION fleet_usage_task();
CREATE TRIGGER usage_task_ended AFTER UPDATE OF status ON tasks FOR EACH ROW
    WHEN (OLD.status IN ('pending', 'running') AND NEW.status NOT IN ('pending', 'running')) EXECUTE FUNCTION fleet_usage_task();
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks FOR EACH ROW
    WHEN (OLD.status NOT IN ('pending', 'running')) EXECUTE FUNCTION fleet_usage_task();

-- It runs in fleet_stamp, which holds the row of sequencer, so that no two write usage_days at the same time.
CREATE FUNCTION fleet_usage_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_days AS d (day, owner, project, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took)
        SELECT day, owner, project, sum(tasks), sum(completed), sum(failed), sum(stopped), sum(cost), sum(input_tokens), sum(output_tokens),
            sum(tool_calls), sum(took)
        FROM summed WHERE day IS NOT NULL GROUP BY day, owner, project
        ON CONFLICT (day, owner, project) DO UPDATE SET tasks = d.tasks + excluded.tasks, completed = d.completed + excluded.completed,
            failed = d.failed + excluded.failed, stopped = d.stopped + excluded.stopped, cost = d.cost + excluded.cost,
            input_tokens = d.input_tokens + excluded.input_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
            tool_calls = d.tool_calls + excluded.tool_calls, took = d.took + excluded.took;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_changes AFTER DELETE ON stored_changes REFERENCING OLD TABLE AS summed
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_usage_changes();

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
    scope      text        NOT NULL CHECK (scope IN ('read', 'run', 'admin')),
    projects   text        NOT NULL, -- one a line; empty: all
    hash       text        COLLATE "C" NOT NULL CHECK (hash <> ''),
    agent_uid  text        COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);

-- Token names are unique, except those of revoked tokens.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX tokens_hash ON tokens (hash);
CREATE INDEX tokens_agent ON tokens (agent_uid) WHERE agent_uid <> '' AND revoked_at IS NULL;
CREATE INDEX tokens_held ON tokens (name) WHERE agent_uid = ''; -- those of people and programs, without the many of agents
CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE agent_uid <> '';

-- The principals of people who come from outside, and their groups as they were last seen: limits can be those of a group.
CREATE TABLE identities (
    principal  text        COLLATE "C" PRIMARY KEY CHECK (principal <> ''),
    source     text        COLLATE "C" NOT NULL CHECK (source <> ''),
    subject_id text        COLLATE "C" NOT NULL CHECK (subject_id <> ''),
    member_of  text        NOT NULL, -- a JSON list; empty: none
    created_at timestamptz NOT NULL,
    UNIQUE (source, subject_id)
);

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

-- The transaction of a call adds its line; the outcome is written when the call has ended. It is empty until then.
CREATE TABLE audit (
    n          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time       timestamptz NOT NULL,
    principal  text        COLLATE "C" NOT NULL,
    kind       text        NOT NULL,
    caller     text        NOT NULL,
    method     text        NOT NULL,
    method_key text        COLLATE "C" NOT NULL,
    face       text        NOT NULL,
    remote     text        NOT NULL,
    target     text        NOT NULL,
    agent_name text        NOT NULL,
    name_key   text        COLLATE "C" NOT NULL,
    owner      text        COLLATE "C" NOT NULL,
    request_id text        NOT NULL,
    outcome    text        COLLATE "C" NOT NULL,
    count      bigint      NOT NULL CHECK (count > 0)
);

CREATE INDEX audit_time ON audit (time);
CREATE INDEX audit_principal ON audit (principal, n);
CREATE INDEX audit_agent ON audit (name_key, n) WHERE name_key <> '';

-- The servers that use the store, each with when it was last heard.
CREATE TABLE replicas (
    name       text        COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    machine    text        COLLATE "C" NOT NULL,
    address    text        NOT NULL,
    version    text        NOT NULL,
    started_at timestamptz NOT NULL,
    heard_at   timestamptz NOT NULL,
    stopped    boolean     NOT NULL,
    forgotten  boolean     NOT NULL
);

-- The epoch of a lease shows a paused worker that another one has taken it.
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
