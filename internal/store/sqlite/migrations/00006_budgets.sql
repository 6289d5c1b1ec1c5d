-- What budgets have reserved and spent. Older programs would start and end tasks without these rows.

-- +goose Up
UPDATE compatibility SET oldest = 6;

CREATE TABLE budget_ledger (
    n               INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    budget          TEXT    NOT NULL CHECK (budget <> ''),
    begins          INTEGER NOT NULL, -- when the window of the budget begins
    task_id         TEXT    NOT NULL, -- the task may have been deleted; empty if it never existed
    kind            TEXT    NOT NULL CHECK (kind IN ('reserve', 'settle', 'refuse')),
    reserved_micros INTEGER NOT NULL,
    reserved_tokens INTEGER NOT NULL,
    spent_micros    INTEGER NOT NULL,
    spent_tokens    INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    text            TEXT    NOT NULL
) STRICT;
CREATE INDEX budget_ledger_budget ON budget_ledger (budget, n);
CREATE INDEX budget_ledger_task ON budget_ledger (task_id) WHERE task_id <> '';
CREATE INDEX budget_ledger_refused ON budget_ledger (at) WHERE kind = 'refuse';

-- The sums of the ledger by window.
CREATE TABLE budget_totals (
    budget          TEXT    NOT NULL,
    begins          INTEGER NOT NULL,
    reserved_micros INTEGER NOT NULL CHECK (reserved_micros >= 0),
    reserved_tokens INTEGER NOT NULL CHECK (reserved_tokens >= 0),
    spent_micros    INTEGER NOT NULL,
    spent_tokens    INTEGER NOT NULL,
    PRIMARY KEY (budget, begins)
) STRICT, WITHOUT ROWID;
