-- Times are microseconds since 1970 in UTC; a missing optional time is NULL. Constraints enforce the rules that every program must
-- keep. 'name_key' is the name in lower case, and 'n' the order of insertion.

-- +goose Up
-- +goose StatementBegin

-- The least version that a program must know to work with this schema. A migration that older programs cannot work with sets it to its
-- own number; others leave it alone.
CREATE TABLE compatibility (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    oldest INTEGER NOT NULL
);
INSERT INTO compatibility (id, oldest) VALUES (1, 1);

CREATE TABLE agents (
    n             INTEGER PRIMARY KEY,
    uid           TEXT    NOT NULL UNIQUE CHECK (uid <> ''),
    name          TEXT    NOT NULL,
    name_key      TEXT    NOT NULL,
    owner         TEXT    NOT NULL,
    project       TEXT    NOT NULL,
    role          TEXT    NOT NULL,
    spec          TEXT    NOT NULL,
    toolset       TEXT    NOT NULL,
    place         TEXT    NOT NULL,
    workspace_id  TEXT    NOT NULL,
    location      TEXT    NOT NULL,
    metadata      TEXT    CHECK (json_type(metadata) = 'object'),
    parameters    TEXT    CHECK (json_type(parameters) = 'object'), -- what a caller has chosen for the workspace
    host          TEXT    CHECK (json_type(host) = 'object'),       -- what the host reports about the workspace
    next_start    TEXT    CHECK (json_type(next_start) = 'object'), -- what the next start changes
    shares        TEXT    CHECK (json_type(shares) = 'array'),      -- people and groups; NULL: none
    rules         TEXT    CHECK (json_type(rules) = 'array'),       -- what people have allowed by answering questions
    state         TEXT    NOT NULL CHECK (state IN (
        'pending', 'starting', 'running', 'stopping', 'stopped', 'failed',
        'canceling', 'canceled', 'deleting', 'deleted', 'unhealthy')),
    state_reason  TEXT    NOT NULL,
    desired       TEXT    NOT NULL CHECK (desired IN ('running', 'stopped', 'deleted')),
    restart       INTEGER NOT NULL,
    restarted     INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    retry_at      INTEGER,
    refused       TEXT    NOT NULL, -- why the host refused to create the agent
    refused_field TEXT    NOT NULL,
    one_task      INTEGER NOT NULL CHECK (one_task IN (0, 1)),
    conversed     INTEGER NOT NULL CHECK (conversed IN (0, 1)), -- whether it has a conversation
    traceparent   TEXT    NOT NULL, -- W3C's, of the call that wanted something of the agent; what is done about it belongs to the same trace
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    revision      INTEGER NOT NULL
) STRICT;

-- Agent names are unique per owner, except those of deleted agents.
CREATE UNIQUE INDEX agents_name ON agents (name_key, owner) WHERE deleted_at IS NULL;
CREATE INDEX agents_ever ON agents (name_key, created_at, n);
CREATE INDEX agents_workspace ON agents (workspace_id, created_at, n) WHERE workspace_id <> '';
CREATE INDEX agents_project ON agents (project, deleted_at) WHERE deleted_at IS NULL;
CREATE INDEX agents_shared ON agents (uid) WHERE shares IS NOT NULL;

-- Configurations of agents never change and can be large. A separate table keeps frequent writes of agents small.
CREATE TABLE agent_configs (
    agent_uid TEXT NOT NULL PRIMARY KEY REFERENCES agents (uid),
    config    TEXT NOT NULL CHECK (json_type(config) = 'object')
) STRICT;

-- Work of deleted agents, as a git bundle, and what may be lost.
CREATE TABLE agent_remains (
    agent_uid TEXT    NOT NULL PRIMARY KEY,
    kept_at   INTEGER NOT NULL,
    size      INTEGER NOT NULL CHECK (size >= 0), -- of the bundle, in bytes
    lost      TEXT    NOT NULL,
    bundle    BLOB    NOT NULL
) STRICT;

CREATE INDEX agent_remains_time ON agent_remains (kept_at);

-- How many agents an owner has that are not deleted, by toolset. The triggers count, so that a limit does not.
CREATE TABLE owned (
    owner   TEXT    NOT NULL,
    toolset TEXT    NOT NULL,
    agents  INTEGER NOT NULL,
    PRIMARY KEY (owner, toolset)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE tasks (
    n                  INTEGER PRIMARY KEY,
    id                 TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    agent_uid          TEXT    NOT NULL REFERENCES agents (uid),
    agent_name         TEXT    NOT NULL,
    name_key           TEXT    NOT NULL, -- this and the next two are of the agent, so that lists need not look at agents
    project            TEXT    NOT NULL,
    toolset            TEXT    NOT NULL,
    owner              TEXT    NOT NULL,
    source             TEXT    NOT NULL CHECK (source IN ('agent', 'human', 'ai_controller')),
    self_started       INTEGER NOT NULL CHECK (self_started IN (0, 1)), -- whether the agent started it by itself
    session_id         TEXT    NOT NULL,
    retry_of           TEXT    NOT NULL, -- the task that this one has started again
    status             TEXT    NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'stopped')),
    reason             TEXT    NOT NULL,
    reason_code        TEXT    NOT NULL CHECK (reason_code = '' OR status = 'failed'),
    retry_at           INTEGER,
    timeout            INTEGER NOT NULL, -- nanoseconds
    options            TEXT    NOT NULL, -- for the agent's program, as a JSON object; empty if none is set
    created_at         INTEGER NOT NULL,
    started_at         INTEGER,
    ended_at           INTEGER,
    dispatched         INTEGER,
    collecting_at      INTEGER CHECK (collecting_at IS NULL OR status IN ('pending', 'running')), -- when Fleet began to collect the work of its run
    stop_asked         INTEGER,
    stop_reason        TEXT    NOT NULL,
    waiting            INTEGER NOT NULL CHECK (waiting >= 0),
    stalled_at         INTEGER, -- since when it makes no progress
    last_step          TEXT    NOT NULL,
    try                INTEGER NOT NULL CHECK (try >= 0), -- after failed checks an agent tries again
    conversation_lost  TEXT    NOT NULL, -- why it could not continue the agent's conversation
    reported           INTEGER NOT NULL CHECK (reported IN (0, 1)), -- whether the agent itself reported the end
    terminal           INTEGER NOT NULL CHECK (terminal IN (0, 1)), -- whether the output was read from the agent's terminal
    cursor             TEXT    NOT NULL,
    output_size        INTEGER NOT NULL,
    exit_code          INTEGER,
    summary            TEXT    NOT NULL,
    output             TEXT    NOT NULL, -- of a task with a schema, as JSON
    payload_size       INTEGER NOT NULL,
    payload_gap_offset INTEGER NOT NULL CHECK (payload_gap_offset >= 0), -- where bytes are missing, because it was longer than its limit
    payload_gap_size   INTEGER NOT NULL CHECK (payload_gap_size >= 0),
    payload_removed    INTEGER NOT NULL DEFAULT 0 CHECK (payload_removed IN (0, 1)),
    cost_usd           REAL    NOT NULL,
    turns              INTEGER NOT NULL,
    model              TEXT    NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    tool_calls         INTEGER NOT NULL,
    spent              TEXT,             -- by model, and the basis of the cost, as JSON
    has_messages       INTEGER NOT NULL DEFAULT 0 CHECK (has_messages IN (0, 1)), -- so that nobody looks for those that are not there
    has_questions      INTEGER NOT NULL DEFAULT 0 CHECK (has_questions IN (0, 1)),
    has_checks         INTEGER NOT NULL DEFAULT 0 CHECK (has_checks IN (0, 1)),
    traceparent        TEXT    NOT NULL, -- W3C's, of the call that started it
    description        TEXT    NOT NULL, -- its first 4 KiB; what is beyond is in task_descriptions
    revision           INTEGER NOT NULL
) STRICT;

-- An agent has at most one active task.
CREATE UNIQUE INDEX tasks_active ON tasks (agent_uid) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_history ON tasks (agent_uid, created_at, n);
CREATE INDEX tasks_session ON tasks (session_id, created_at, n) WHERE session_id <> '';
CREATE INDEX tasks_owned ON tasks (owner, status) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_project ON tasks (project, status) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_payload ON tasks (ended_at) WHERE payload_size > 0 AND payload_removed = 0;
-- Each filter that many or few tasks may match has an index in the order of lists, which covers the other filters, so that only the rows
-- of one page are read. Of the tasks that are completed, every page of another list has some.
CREATE INDEX tasks_listed ON tasks (created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_listed_owner ON tasks (owner, created_at, n, status, source, toolset, project, name_key);
CREATE INDEX tasks_listed_toolset ON tasks (toolset, created_at, n, status, source, project);
CREATE INDEX tasks_listed_project ON tasks (project, created_at, n, status, source, toolset);
CREATE INDEX tasks_listed_source ON tasks (source, created_at, n, status, toolset, project);
CREATE INDEX tasks_listed_status ON tasks (status, created_at, n, source, toolset, project, owner) WHERE status <> 'completed';

CREATE TRIGGER tasks_ended BEFORE UPDATE OF status ON tasks WHEN OLD.status IN ('completed', 'failed', 'stopped')
BEGIN
    SELECT RAISE(ABORT, 'a task that has ended is never changed');
END;

-- The part of a description after its first 4 KiB. A separate table keeps lists and frequent writes of tasks small.
CREATE TABLE task_descriptions (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    rest    TEXT NOT NULL
) STRICT;

CREATE TABLE payloads (
    task_id TEXT    NOT NULL PRIMARY KEY REFERENCES tasks (id),
    size    INTEGER NOT NULL CHECK (size >= 0), -- bytes before compression
    gzip    BLOB    NOT NULL
) STRICT;

CREATE TABLE task_attachments (
    task_id    TEXT    NOT NULL REFERENCES tasks (id),
    n          INTEGER NOT NULL,
    name       TEXT    NOT NULL CHECK (name <> ''),
    media_type TEXT    NOT NULL,
    size       INTEGER NOT NULL CHECK (size > 0),
    content    BLOB    NOT NULL,
    PRIMARY KEY (task_id, n),
    UNIQUE (task_id, name)
) STRICT;

CREATE TABLE task_changes (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    changes TEXT NOT NULL CHECK (json_valid(changes))
) STRICT, WITHOUT ROWID;

CREATE TABLE task_checks (
    task_id TEXT NOT NULL PRIMARY KEY REFERENCES tasks (id),
    checks  TEXT NOT NULL CHECK (json_valid(checks))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_has_checks AFTER INSERT ON task_checks
BEGIN
    UPDATE tasks SET has_checks = 1 WHERE id = NEW.task_id AND NOT has_checks;
END;

-- Full-text index of tasks, ignoring case.
CREATE VIRTUAL TABLE tasks_text USING fts5 (description, summary, content = '', contentless_delete = 1, tokenize = 'trigram');

CREATE TRIGGER tasks_text_added AFTER INSERT ON tasks
BEGIN
    INSERT INTO tasks_text (rowid, description, summary) VALUES (NEW.n, NEW.description, NEW.summary);
END;
CREATE TRIGGER tasks_text_changed AFTER UPDATE OF description, summary ON tasks
    WHEN OLD.description <> NEW.description OR OLD.summary <> NEW.summary
BEGIN
    UPDATE tasks_text SET description = NEW.description, summary = NEW.summary WHERE rowid = NEW.n;
END;
CREATE TRIGGER tasks_text_removed AFTER DELETE ON tasks
BEGIN
    DELETE FROM tasks_text WHERE rowid = OLD.n;
END;

-- What each task counts. Sums of these numbers are exact up to 2^53, so they do not depend on the order in which they are added up.
CREATE VIEW task_usage AS
SELECT *,
    created_at / 86400000000 AS day, -- since 1970, in UTC
    1 AS tasks, status = 'completed' AS completed, status = 'failed' AS failed, status = 'stopped' AS stopped,
    round(min(cost_usd, 1e6) * 1e9) AS cost, -- billionths of a dollar; no report of an agent can make the sum infinite
    coalesce(ended_at - started_at, 0) AS took
FROM tasks;

-- What the tasks of a day have used, so that sums over many tasks need not read them. A task is added when it ends; it does not change
-- afterwards. REAL, because a sum of integers that is too large would fail the end of a task.
CREATE TABLE usage_days (
    day           INTEGER NOT NULL,
    owner         TEXT    NOT NULL,
    project       TEXT    NOT NULL,
    tasks         REAL    NOT NULL,
    completed     REAL    NOT NULL,
    failed        REAL    NOT NULL,
    stopped       REAL    NOT NULL,
    cost          REAL    NOT NULL,
    input_tokens  REAL    NOT NULL,
    output_tokens REAL    NOT NULL,
    tool_calls    REAL    NOT NULL,
    took          REAL    NOT NULL, -- microseconds
    PRIMARY KEY (day, owner, project)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER usage_task_added AFTER INSERT ON tasks WHEN NEW.status NOT IN ('pending', 'running')
BEGIN
    INSERT INTO usage_days
        SELECT day, owner, project, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took
        FROM task_usage WHERE n = NEW.n
        ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks, completed = completed + excluded.completed,
            failed = failed + excluded.failed, stopped = stopped + excluded.stopped, cost = cost + excluded.cost,
            input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
            tool_calls = tool_calls + excluded.tool_calls, took = took + excluded.took;
END;
CREATE TRIGGER usage_task_ended AFTER UPDATE OF status ON tasks
    WHEN OLD.status IN ('pending', 'running') AND NEW.status NOT IN ('pending', 'running')
BEGIN
    INSERT INTO usage_days
        SELECT day, owner, project, tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took
        FROM task_usage WHERE n = NEW.n
        ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks, completed = completed + excluded.completed,
            failed = failed + excluded.failed, stopped = stopped + excluded.stopped, cost = cost + excluded.cost,
            input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
            tool_calls = tool_calls + excluded.tool_calls, took = took + excluded.took;
END;
-- The table has no alias here: SQLite would not find the columns of an alias when a later migration alters a table.
CREATE TRIGGER usage_task_removed BEFORE DELETE ON tasks WHEN OLD.status NOT IN ('pending', 'running')
BEGIN
    UPDATE usage_days SET tasks = usage_days.tasks - t.tasks, completed = usage_days.completed - t.completed,
        failed = usage_days.failed - t.failed, stopped = usage_days.stopped - t.stopped, cost = usage_days.cost - t.cost,
        input_tokens = usage_days.input_tokens - t.input_tokens, output_tokens = usage_days.output_tokens - t.output_tokens,
        tool_calls = usage_days.tool_calls - t.tool_calls, took = usage_days.took - t.took
        FROM task_usage AS t WHERE t.n = OLD.n AND usage_days.day = t.day AND usage_days.owner = t.owner AND usage_days.project = t.project;
END;

CREATE TABLE messages (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    task_id      TEXT    NOT NULL REFERENCES tasks (id),
    text         TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    given_at     INTEGER,
    refused      TEXT    NOT NULL,
    refused_text TEXT    NOT NULL,
    CHECK (given_at IS NULL OR refused = '')
) STRICT;

CREATE INDEX messages_task ON messages (task_id, n);

CREATE TRIGGER messages_settled BEFORE UPDATE ON messages WHEN OLD.given_at IS NOT NULL OR OLD.refused <> ''
BEGIN
    SELECT RAISE(ABORT, 'what has become of a message never changes');
END;
CREATE TRIGGER task_has_messages AFTER INSERT ON messages
BEGIN
    UPDATE tasks SET has_messages = 1 WHERE id = NEW.task_id AND NOT has_messages;
END;

CREATE TABLE questions (
    n           INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    task_id     TEXT    NOT NULL REFERENCES tasks (id),
    agent_uid   TEXT    NOT NULL,
    agent_name  TEXT    NOT NULL,
    name_key    TEXT    NOT NULL, -- of the agent's name
    owner       TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('permission', 'question')),
    status      TEXT    NOT NULL CHECK (status IN ('waiting', 'answered', 'expired', 'withdrawn')),
    text        TEXT    NOT NULL,
    tool        TEXT    NOT NULL,
    input       BLOB,
    options     TEXT    NOT NULL, -- a JSON list
    rules       TEXT    CHECK (json_type(rules) = 'array'), -- what an answer can allow
    remember    TEXT    NOT NULL CHECK (remember IN ('', 'once', 'task', 'agent')), -- for how long the answer allows it
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    answer      TEXT    NOT NULL,
    message     TEXT    NOT NULL,
    answered_by TEXT    NOT NULL,
    answered_at INTEGER,
    given_at    INTEGER,
    CHECK (status <> 'waiting' OR answered_at IS NULL AND given_at IS NULL),
    CHECK (status <> 'answered' OR answered_at IS NOT NULL)
) STRICT;

CREATE INDEX questions_task ON questions (task_id, n);
CREATE INDEX questions_owner ON questions (owner, n);
CREATE INDEX questions_waiting ON questions (n) WHERE status = 'waiting';
CREATE INDEX questions_not_given ON questions (task_id) WHERE status = 'answered' AND given_at IS NULL;

CREATE TRIGGER questions_settled BEFORE UPDATE ON questions
    WHEN OLD.given_at IS NOT NULL OR OLD.status IN ('expired', 'withdrawn') OR NEW.status = 'waiting'
BEGIN
    SELECT RAISE(ABORT, 'what has become of a question never changes');
END;
CREATE TRIGGER task_has_questions AFTER INSERT ON questions
BEGIN
    UPDATE tasks SET has_questions = 1 WHERE id = NEW.task_id AND NOT has_questions;
END;

CREATE TABLE events (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    time       INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    agent_uid  TEXT    NOT NULL,
    agent_name TEXT    NOT NULL,
    name_key   TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    data       BLOB
) STRICT;

CREATE INDEX events_agent ON events (agent_uid, seq);
CREATE INDEX events_name ON events (name_key, seq);
CREATE INDEX events_owner ON events (owner, seq);
CREATE INDEX events_task ON events (task_id, seq) WHERE task_id <> '';
CREATE INDEX events_changes ON events (seq, agent_uid, type) WHERE type <> 'task_output';

CREATE TRIGGER events_append_only BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'an event is never changed');
END;

-- How many bytes of text, output, payloads and attachments are stored for an owner, and for the tasks of a project, before compression.
-- The triggers count, so that a limit does not.
CREATE TABLE stored (
    owner TEXT    NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE stored_projects (
    project TEXT    NOT NULL PRIMARY KEY,
    bytes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER stored_task_added AFTER INSERT ON tasks
BEGIN
    INSERT INTO stored (owner, bytes) VALUES (NEW.owner, octet_length(NEW.description) + octet_length(NEW.summary))
        ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
    INSERT INTO stored_projects (project, bytes) SELECT NEW.project, octet_length(NEW.description) + octet_length(NEW.summary) WHERE NEW.project <> ''
        ON CONFLICT (project) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_task_changed AFTER UPDATE OF description, summary ON tasks
    WHEN OLD.description <> NEW.description OR OLD.summary <> NEW.summary
BEGIN
    UPDATE stored SET bytes = bytes + octet_length(NEW.description) + octet_length(NEW.summary)
        - octet_length(OLD.description) - octet_length(OLD.summary) WHERE owner = NEW.owner;
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.description) + octet_length(NEW.summary)
        - octet_length(OLD.description) - octet_length(OLD.summary) WHERE project = NEW.project;
END;
CREATE TRIGGER stored_task_removed AFTER DELETE ON tasks
BEGIN
    UPDATE stored SET bytes = bytes - octet_length(OLD.description) - octet_length(OLD.summary) WHERE owner = OLD.owner;
    UPDATE stored_projects SET bytes = bytes - octet_length(OLD.description) - octet_length(OLD.summary) WHERE project = OLD.project;
END;
CREATE TRIGGER stored_rest_added AFTER INSERT ON task_descriptions
BEGIN
    UPDATE stored SET bytes = bytes + octet_length(NEW.rest) WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.rest) WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_rest_changed AFTER UPDATE ON task_descriptions
BEGIN
    UPDATE stored SET bytes = bytes + octet_length(NEW.rest) - octet_length(OLD.rest) WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.rest) - octet_length(OLD.rest) WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_rest_removed AFTER DELETE ON task_descriptions
BEGIN
    UPDATE stored SET bytes = bytes - octet_length(OLD.rest) WHERE owner = (SELECT owner FROM tasks WHERE id = OLD.task_id);
    UPDATE stored_projects SET bytes = bytes - octet_length(OLD.rest) WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;
CREATE TRIGGER stored_payload_added AFTER INSERT ON payloads
BEGIN
    UPDATE stored SET bytes = bytes + NEW.size WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
    UPDATE stored_projects SET bytes = bytes + NEW.size WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_payload_changed AFTER UPDATE OF size ON payloads
BEGIN
    UPDATE stored SET bytes = bytes + NEW.size - OLD.size WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
    UPDATE stored_projects SET bytes = bytes + NEW.size - OLD.size WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_payload_removed AFTER DELETE ON payloads
BEGIN
    UPDATE stored SET bytes = bytes - OLD.size WHERE owner = (SELECT owner FROM tasks WHERE id = OLD.task_id);
    UPDATE stored_projects SET bytes = bytes - OLD.size WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;
CREATE TRIGGER stored_attachment_added AFTER INSERT ON task_attachments
BEGIN
    UPDATE stored SET bytes = bytes + NEW.size WHERE owner = (SELECT owner FROM tasks WHERE id = NEW.task_id);
    UPDATE stored_projects SET bytes = bytes + NEW.size WHERE project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_attachment_removed AFTER DELETE ON task_attachments
BEGIN
    UPDATE stored SET bytes = bytes - OLD.size WHERE owner = (SELECT owner FROM tasks WHERE id = OLD.task_id);
    UPDATE stored_projects SET bytes = bytes - OLD.size WHERE project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;
CREATE TRIGGER stored_event_added AFTER INSERT ON events
BEGIN
    INSERT INTO stored (owner, bytes) VALUES (NEW.owner, octet_length(NEW.text) + coalesce(octet_length(NEW.data), 0))
        ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
    UPDATE stored_projects SET bytes = bytes + octet_length(NEW.text) + coalesce(octet_length(NEW.data), 0)
        WHERE NEW.task_id <> '' AND project = (SELECT project FROM tasks WHERE id = NEW.task_id);
END;
CREATE TRIGGER stored_event_removed AFTER DELETE ON events
BEGIN
    UPDATE stored SET bytes = bytes - octet_length(OLD.text) - coalesce(octet_length(OLD.data), 0) WHERE owner = OLD.owner;
    UPDATE stored_projects SET bytes = bytes - octet_length(OLD.text) - coalesce(octet_length(OLD.data), 0)
        WHERE OLD.task_id <> '' AND project = (SELECT project FROM tasks WHERE id = OLD.task_id);
END;

CREATE TABLE sessions (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    toolset      TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    agent_uid    TEXT    NOT NULL,
    messages     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    used_at      INTEGER NOT NULL,
    closed_at    INTEGER,
    close_reason TEXT    NOT NULL,
    revision     INTEGER NOT NULL
) STRICT;

-- Keys of open sessions are unique per owner and toolset.
CREATE UNIQUE INDEX sessions_key ON sessions (toolset, owner, key) WHERE key <> '' AND closed_at IS NULL;
CREATE INDEX sessions_open ON sessions (toolset, owner, used_at) WHERE closed_at IS NULL;

CREATE TABLE tools (
    n          INTEGER PRIMARY KEY,
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL CHECK (name <> ''),
    agent      TEXT    NOT NULL, -- '' for every agent
    tool       TEXT    NOT NULL CHECK (json_type(tool) = 'object'),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (owner, name, agent)
) STRICT;

CREATE TABLE tokens (
    n          INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL CHECK (name <> ''),
    kind       TEXT    NOT NULL CHECK (kind IN ('human', 'controller', 'agent')),
    scope      TEXT    NOT NULL CHECK (scope IN ('read', 'run', 'admin')),
    projects   TEXT    NOT NULL, -- one a line; empty: all
    hash       TEXT    NOT NULL UNIQUE CHECK (hash <> ''),
    agent_uid  TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

-- Token names are unique, except those of revoked tokens.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;
CREATE INDEX tokens_held ON tokens (name) WHERE agent_uid = ''; -- those of people and programs, without the many of agents
CREATE INDEX tokens_agent ON tokens (agent_uid) WHERE agent_uid <> '' AND revoked_at IS NULL;
CREATE INDEX tokens_revoked ON tokens (revoked_at) WHERE agent_uid <> '';

-- The principals of people who come from outside, and their groups as they were last seen: limits can be those of a group.
CREATE TABLE identities (
    principal  TEXT    NOT NULL PRIMARY KEY CHECK (principal <> ''),
    source     TEXT    NOT NULL CHECK (source <> ''),
    subject_id TEXT    NOT NULL CHECK (subject_id <> ''),
    member_of  TEXT    NOT NULL, -- a JSON list; empty: none
    created_at INTEGER NOT NULL,
    UNIQUE (source, subject_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    principal  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    body_hash  TEXT    NOT NULL,
    agent_uid  TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (principal, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_created ON requests (created_at);

-- The transaction of a call adds its line; the outcome is written when the call has ended. It is empty until then.
CREATE TABLE audit (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    time       INTEGER NOT NULL,
    principal  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    caller     TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    method_key TEXT    NOT NULL,
    face       TEXT    NOT NULL,
    remote     TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    agent_name TEXT    NOT NULL,
    name_key   TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    outcome    TEXT    NOT NULL,
    count      INTEGER NOT NULL CHECK (count > 0)
) STRICT;

CREATE INDEX audit_time ON audit (time);
CREATE INDEX audit_principal ON audit (principal, n);
CREATE INDEX audit_agent ON audit (name_key, n) WHERE name_key <> '';

-- The servers that use the store, each with when it was last heard.
CREATE TABLE replicas (
    name       TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
    machine    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    heard_at   INTEGER NOT NULL,
    stopped    INTEGER NOT NULL CHECK (stopped IN (0, 1)),
    forgotten  INTEGER NOT NULL CHECK (forgotten IN (0, 1))
) STRICT, WITHOUT ROWID;

-- The epoch of a lease shows a paused worker that another one has taken it.
CREATE TABLE leases (
    key   TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL,
    until INTEGER NOT NULL,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lease_epochs (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
) STRICT;
INSERT INTO lease_epochs (id, n) VALUES (1, 0);

-- Times at which something was last done, shared by all processes.
CREATE TABLE notes (
    key TEXT    NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Secrets of the server itself, shared by all servers of a database. None belongs to a user.
CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose StatementEnd
