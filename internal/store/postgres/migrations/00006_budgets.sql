-- What budgets have reserved and spent. Older programs would start and end tasks without these rows.

-- +goose Up
-- +goose StatementBegin
UPDATE compatibility SET oldest = 6;

CREATE TABLE budget_ledger (
    n               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    budget          text        COLLATE "C" NOT NULL CHECK (budget <> ''),
    begins          timestamptz NOT NULL, -- when the window of the budget begins
    task_id         text        COLLATE "C" NOT NULL, -- the task may have been deleted; empty if it never existed
    kind            text        NOT NULL CHECK (kind IN ('reserve', 'settle', 'refuse')),
    reserved_micros bigint      NOT NULL,
    reserved_tokens bigint      NOT NULL,
    spent_micros    bigint      NOT NULL,
    spent_tokens    bigint      NOT NULL,
    at              timestamptz NOT NULL,
    text            text        NOT NULL
);
CREATE INDEX budget_ledger_budget ON budget_ledger (budget, n);
CREATE INDEX budget_ledger_task ON budget_ledger (task_id) WHERE task_id <> '';
CREATE INDEX budget_ledger_refused ON budget_ledger (at) WHERE kind = 'refuse';

-- The sums of the ledger by window.
CREATE TABLE budget_totals (
    budget          text        COLLATE "C" NOT NULL,
    begins          timestamptz NOT NULL,
    reserved_micros bigint      NOT NULL CHECK (reserved_micros >= 0),
    reserved_tokens bigint      NOT NULL CHECK (reserved_tokens >= 0),
    spent_micros    bigint      NOT NULL,
    spent_tokens    bigint      NOT NULL,
    PRIMARY KEY (budget, begins)
);
-- +goose StatementEnd
