-- What webhooks have sent and still send. Webhooks themselves are resources. Older programs can work with the schema: they send nothing.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE deliveries (
    id         text        COLLATE "C" NOT NULL PRIMARY KEY, -- derived from the webhook and the event, so that no event is delivered twice
    webhook    text        COLLATE "C" NOT NULL CHECK (webhook <> ''),
    seq        bigint      NOT NULL, -- of the event; 0 for a test
    type       text        NOT NULL,
    agent_name text        NOT NULL,
    task_id    text        COLLATE "C" NOT NULL,
    body       text        NOT NULL,
    status     text        NOT NULL CHECK (status IN ('waiting', 'delivered', 'failed')),
    tries      bigint      NOT NULL,
    next_at    timestamptz,
    attempts   text        NOT NULL,
    created_at timestamptz NOT NULL,
    CHECK ((status = 'waiting') = (next_at IS NOT NULL))
);
CREATE INDEX deliveries_webhook ON deliveries (webhook, created_at, seq, id);
CREATE INDEX deliveries_waiting ON deliveries (webhook, next_at, seq, id) WHERE status = 'waiting';
CREATE INDEX deliveries_undelivered ON deliveries (webhook, status, created_at) WHERE status <> 'delivered';
CREATE INDEX deliveries_created ON deliveries (created_at);
-- +goose StatementEnd
