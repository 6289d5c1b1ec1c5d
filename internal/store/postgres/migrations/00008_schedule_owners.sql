-- The names of schedules belong to their owners. Older programs would not find a schedule by its name.

-- +goose Up
UPDATE compatibility SET oldest = 8;

UPDATE resources SET name = name || '@' || (body->>'owner') WHERE kind = 'schedule' AND name NOT LIKE '%@%';
