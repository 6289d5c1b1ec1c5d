-- The audit log. The transaction of a call adds its line; the outcome is written when the call has ended. It is empty until then.

-- +goose Up
-- +goose StatementBegin
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
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE audit;
-- +goose StatementEnd
