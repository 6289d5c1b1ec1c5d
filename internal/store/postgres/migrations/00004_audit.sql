-- The audit log. The transaction of a call adds its line; the outcome is written when the call has ended. It is empty until then.

-- +goose Up
-- +goose StatementBegin
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
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE audit;
-- +goose StatementEnd
