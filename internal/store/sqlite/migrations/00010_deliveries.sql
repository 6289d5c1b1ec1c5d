-- What webhooks have sent and still send. Webhooks themselves are resources. Older programs can work with the schema: they send nothing.

-- +goose Up
CREATE TABLE deliveries (
    id         TEXT    NOT NULL PRIMARY KEY, -- derived from the webhook and the event, so that no event is delivered twice
    webhook    TEXT    NOT NULL CHECK (webhook <> ''),
    seq        INTEGER NOT NULL, -- of the event; 0 for a test
    type       TEXT    NOT NULL,
    agent_name TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('waiting', 'delivered', 'failed')),
    tries      INTEGER NOT NULL,
    next_at    INTEGER,
    attempts   TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    CHECK ((status = 'waiting') = (next_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_webhook ON deliveries (webhook, created_at, seq, id);
CREATE INDEX deliveries_waiting ON deliveries (webhook, next_at, seq, id) WHERE status = 'waiting';
CREATE INDEX deliveries_undelivered ON deliveries (webhook, status, created_at) WHERE status <> 'delivered';
CREATE INDEX deliveries_created ON deliveries (created_at);
