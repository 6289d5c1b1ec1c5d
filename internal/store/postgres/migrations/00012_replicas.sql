-- The servers that use the store, each with when it was last heard.

-- +goose Up
-- +goose StatementBegin
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
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE replicas;
-- +goose StatementEnd
