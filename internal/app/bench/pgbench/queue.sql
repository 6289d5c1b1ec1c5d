-- What queue_task writes, in one transaction: a pending task with its entry in the queue, the event, and the line of the audit log.
\set turn :turn + 1
\set n (:turn * :connections + :client_id) % :agents
BEGIN;
SELECT uid AS agent, name AS name FROM agents WHERE uid = '10000000-0000-4000-8000-' || lpad(:n::text, 12, '0') FOR SHARE \gset
INSERT INTO tasks (id, agent_uid, agent_name, name_key, project, toolset, owner, source, status, reason, timeout, created_at, started_at, cursor, output_size,
    stop_reason, summary, payload_size, payload_gap_offset, payload_gap_size, cost_usd, turns, session_id, model, input_tokens, output_tokens, tool_calls,
    self_started, reported, waiting, last_step, terminal, conversation_lost, try, retry_of, reason_code, options, output, traceparent,
    description, search, revision)
SELECT gen_random_uuid(), uid, name, name_key, project, toolset, owner, 'human', 'pending', '', 86400000000000, now(), NULL, '', 0,
    '', '', 0, 0, 0, 0, 0, '', '', 0, 0, 0, false, false, 0, '', false, '', 0, '', '', '', '', '', 'Say hello.', E'say hello.\n', 1
FROM agents WHERE uid = :agent RETURNING id AS task \gset
INSERT INTO task_queue (task_id, entry) VALUES (:task, '{"held_by": "local", "by": "local", "kind": "human", "scope": "admin"}');
INSERT INTO events (seq, id, time, type, agent_uid, agent_name, name_key, owner, task_id, status, text)
    VALUES (nextval('numbers'), 0, now(), 'task_created', :agent, :name, :name, 'local', :task, 'pending', 'Say hello.');
INSERT INTO audit (time, principal, kind, caller, method, method_key, face, remote, target, agent_name, name_key, owner, request_id, outcome, count)
    VALUES (now(), 'local', 'human', '', 'FleetService/QueueTask', 'queuetask', 'grpc', '127.0.0.1:8102', :task, :name, :name, '', '', 'ok', 1);
COMMIT;
