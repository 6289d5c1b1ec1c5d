-- How many bytes of text, output and payloads are stored for the tasks of a project, before compression: the sum of stored_projects and
-- of the project's rows in stored_changes. The latter are for the owner too, and fleet_stamp deletes them.

-- +goose Up
-- +goose StatementBegin
LOCK TABLE tasks, task_descriptions, payloads, events, stored_changes IN SHARE ROW EXCLUSIVE MODE; -- what is added meanwhile would not be counted

CREATE TABLE stored_projects (
    project text   PRIMARY KEY,
    bytes   bigint NOT NULL
);

ALTER TABLE stored_changes ADD COLUMN project text; -- NULL or empty if it is for no project

INSERT INTO stored_projects (project, bytes)
SELECT project, sum(bytes) FROM (
    SELECT project, octet_length(description) + octet_length(summary) AS bytes FROM tasks
    UNION ALL
    SELECT project, octet_length(rest) FROM task_descriptions JOIN tasks ON id = task_id
    UNION ALL
    SELECT project, size FROM payloads JOIN tasks ON id = task_id
    UNION ALL
    SELECT t.project, octet_length(e.text) + coalesce(octet_length(e.data), 0) FROM events e JOIN tasks t ON t.id = e.task_id WHERE e.task_id <> ''
) AS b WHERE project <> '' GROUP BY project;

CREATE OR REPLACE FUNCTION fleet_stored_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -octet_length(OLD.description) - octet_length(OLD.summary);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + octet_length(NEW.description) + octet_length(NEW.summary);
    END IF;
    IF delta <> 0 THEN
        INSERT INTO stored_changes (owner, project, bytes) VALUES (
            CASE TG_OP WHEN 'DELETE' THEN OLD.owner ELSE NEW.owner END, CASE TG_OP WHEN 'DELETE' THEN OLD.project ELSE NEW.project END, delta);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fleet_stored_rest() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -octet_length(OLD.rest);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + octet_length(NEW.rest);
    END IF;
    INSERT INTO stored_changes (owner, project, bytes)
        SELECT owner, project, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fleet_stored_payload() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -OLD.size;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + NEW.size;
    END IF;
    INSERT INTO stored_changes (owner, project, bytes)
        SELECT owner, project, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fleet_stored_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_changes (owner, project, bytes)
        SELECT g.owner, t.project, -sum(octet_length(g.text) + coalesce(octet_length(g.data), 0))
        FROM gone g LEFT JOIN tasks t ON g.task_id <> '' AND t.id = g.task_id GROUP BY g.owner, t.project;
    RETURN NULL;
END $$;

-- Both triggers run in fleet_stamp, which holds the row of sequencer, so that no two write stored_projects at the same time.
CREATE FUNCTION fleet_stored_project_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_projects AS s (project, bytes)
        SELECT t.project, sum(octet_length(a.text) + coalesce(octet_length(a.data), 0))
        FROM added a JOIN tasks t ON t.id = a.task_id WHERE a.task_id <> '' AND t.project <> '' GROUP BY t.project
        ON CONFLICT (project) DO UPDATE SET bytes = s.bytes + excluded.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_project_events AFTER INSERT ON events REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_stored_project_events();

CREATE FUNCTION fleet_stored_project_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_projects AS s (project, bytes)
        SELECT project, sum(bytes) FROM summed WHERE project <> '' GROUP BY project
        ON CONFLICT (project) DO UPDATE SET bytes = s.bytes + excluded.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_project_changes AFTER DELETE ON stored_changes REFERENCING OLD TABLE AS summed
    FOR EACH STATEMENT EXECUTE FUNCTION fleet_stored_project_changes();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TRIGGER stored_project_changes ON stored_changes;
DROP FUNCTION fleet_stored_project_changes;
DROP TRIGGER stored_project_events ON events;
DROP FUNCTION fleet_stored_project_events;

CREATE OR REPLACE FUNCTION fleet_stored_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -octet_length(OLD.description) - octet_length(OLD.summary);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + octet_length(NEW.description) + octet_length(NEW.summary);
    END IF;
    IF delta <> 0 THEN
        INSERT INTO stored_changes (owner, bytes) VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.owner ELSE NEW.owner END, delta);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fleet_stored_rest() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -octet_length(OLD.rest);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + octet_length(NEW.rest);
    END IF;
    INSERT INTO stored_changes (owner, bytes)
        SELECT owner, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fleet_stored_payload() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        delta := -OLD.size;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        delta := delta + NEW.size;
    END IF;
    INSERT INTO stored_changes (owner, bytes)
        SELECT owner, delta FROM tasks WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.task_id ELSE NEW.task_id END AND delta <> 0;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fleet_stored_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_changes (owner, bytes)
        SELECT owner, -sum(octet_length(text) + coalesce(octet_length(data), 0)) FROM gone GROUP BY owner;
    RETURN NULL;
END $$;

ALTER TABLE stored_changes DROP COLUMN project;
DROP TABLE stored_projects;
-- +goose StatementEnd
