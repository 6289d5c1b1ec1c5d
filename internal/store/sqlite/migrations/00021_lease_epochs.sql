-- Leases with epochs. The epoch shows a paused worker that another one has taken its lease.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE leases ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

CREATE TABLE lease_epochs (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
) STRICT;

INSERT INTO lease_epochs (id, n) VALUES (1, 0);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE lease_epochs;
ALTER TABLE leases DROP COLUMN epoch;
-- +goose StatementEnd
