-- What follows when the task is handed to its agent and when it has ended, in a transaction each. It is run after start.sql.
BEGIN;
INSERT INTO leases (key, owner, until, epoch) VALUES ('agent/' || :agent, 'pgbench', now() + interval '10 s', nextval('lease_epochs'));
UPDATE tasks SET dispatched = now(), revision = revision + 1 WHERE id = :task;
INSERT INTO events (seq, id, time, type, agent_uid, agent_name, name_key, owner, task_id, status, text)
    VALUES (nextval('numbers'), 0, now(), 'task_started', :agent, :name, :name, 'local', :task, 'running', 'the task is handed to the agent');
COMMIT;
BEGIN;
UPDATE tasks SET status = 'completed', ended_at = now(), summary = 'Handled: Say hello.', search = E'say hello.\nhandled: say hello.', revision = revision + 1
    WHERE id = :task;
UPDATE agents SET updated_at = now(), conversed = true, revision = revision + 1 WHERE uid = :agent;
INSERT INTO events (seq, id, time, type, agent_uid, agent_name, name_key, owner, task_id, status, text)
    VALUES (nextval('numbers'), 0, now(), 'task_completed', :agent, :name, :name, 'local', :task, 'completed', 'Handled: Say hello.');
DELETE FROM leases WHERE key = 'agent/' || :agent;
COMMIT;
