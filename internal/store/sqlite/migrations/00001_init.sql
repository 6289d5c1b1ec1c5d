-- Times are microseconds since 1970 in UTC; a missing optional time is NULL.
-- Constraints enforce the rules that every program must keep. 'name_key' is the name in lower case.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE agents (
    n            INTEGER PRIMARY KEY, -- order of insertion
    uid          TEXT    NOT NULL UNIQUE CHECK (uid <> ''),
    name         TEXT    NOT NULL,
    name_key     TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    project      TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    spec         TEXT    NOT NULL,
    workspace_id TEXT    NOT NULL,
    location     TEXT    NOT NULL,
    metadata     TEXT    CHECK (json_type(metadata) = 'object'),
    state        TEXT    NOT NULL CHECK (state IN (
        'pending', 'starting', 'running', 'stopping', 'stopped', 'failed',
        'canceling', 'canceled', 'deleting', 'deleted', 'unhealthy')),
    state_reason TEXT    NOT NULL,
    desired      TEXT    NOT NULL CHECK (desired IN ('running', 'stopped', 'deleted')),
    restart      INTEGER NOT NULL,
    restarted    INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    retry_at     INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    revision     INTEGER NOT NULL
) STRICT;

-- Agent names are unique per owner, except those of deleted agents.
CREATE UNIQUE INDEX agents_name ON agents (name_key, owner) WHERE deleted_at IS NULL;
CREATE INDEX agents_workspace ON agents (workspace_id, created_at, n) WHERE workspace_id <> '';

CREATE TABLE tasks (
    n            INTEGER PRIMARY KEY, -- order of insertion
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    agent_uid    TEXT    NOT NULL REFERENCES agents (uid),
    agent_name   TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    source       TEXT    NOT NULL CHECK (source IN ('agent', 'human', 'ai_controller')),
    status       TEXT    NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'stopped')),
    reason       TEXT    NOT NULL,
    timeout      INTEGER NOT NULL,    -- nanoseconds
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,
    ended_at     INTEGER,
    dispatched   INTEGER,
    cursor       TEXT    NOT NULL,
    output_size  INTEGER NOT NULL,
    stop_asked   INTEGER,
    stop_reason  TEXT    NOT NULL,
    summary      TEXT    NOT NULL,
    payload_size INTEGER NOT NULL,
    exit_code    INTEGER,
    cost_usd     REAL    NOT NULL,
    turns        INTEGER NOT NULL,
    description  TEXT    NOT NULL,    -- its first 4 KiB; what is beyond is in task_descriptions
    revision     INTEGER NOT NULL
) STRICT;

-- An agent has at most one active task.
CREATE UNIQUE INDEX tasks_active ON tasks (agent_uid) WHERE status IN ('pending', 'running');
CREATE INDEX tasks_history ON tasks (agent_uid, created_at, n);

CREATE TRIGGER tasks_ended BEFORE UPDATE ON tasks WHEN OLD.status IN ('completed', 'failed', 'stopped')
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
    text       TEXT    NOT NULL
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

CREATE TABLE tokens (
    n          INTEGER PRIMARY KEY, -- order of insertion
    name       TEXT    NOT NULL CHECK (name <> ''),
    kind       TEXT    NOT NULL CHECK (kind IN ('human', 'controller', 'agent')),
    admin      INTEGER NOT NULL CHECK (admin IN (0, 1)),
    hash       TEXT    NOT NULL UNIQUE CHECK (hash <> ''),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

-- Token names are unique, except those of revoked tokens.
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_at IS NULL;

CREATE TABLE leases (
    key   TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Number of writing transactions, from which a process sees that another one has committed. Leases do not count.
CREATE TABLE commits (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
) STRICT;

INSERT INTO commits (id, n) VALUES (1, 0);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE commits;
DROP TABLE leases;
DROP TABLE tokens;
DROP TABLE requests;
DROP TABLE events;
DROP TABLE payloads;
DROP TABLE task_descriptions;
DROP TABLE tasks;
DROP TABLE agents;
-- +goose StatementEnd
