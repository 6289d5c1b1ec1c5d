-- Fleet asks whether a task goes on that has used up a budget. Older programs would start the task without an answer.

-- +goose Up
UPDATE compatibility SET oldest = 7;

ALTER TABLE questions DROP CONSTRAINT questions_kind_check;
ALTER TABLE questions ADD CONSTRAINT questions_kind_check CHECK (kind IN ('permission', 'question', 'budget'));
ALTER TABLE questions ALTER COLUMN expires_at DROP NOT NULL;
