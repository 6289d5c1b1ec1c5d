-- The least version that a program must know to work with this schema. A migration that older programs cannot work with sets it to its
-- own number; others leave it alone.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE compatibility (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    oldest INTEGER NOT NULL
);
INSERT INTO compatibility (id, oldest) VALUES (1, 27);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE compatibility;
-- +goose StatementEnd
