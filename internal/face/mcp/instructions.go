package mcp

// instructions tell the model of a client how to use the tools. Clients put them before the conversation, so they are
// short, and say what the descriptions of the single tools cannot.
const instructions = `Fleet runs AI coding agents. Each agent has a workspace of its own and works on one task at a time.

To get work done:
1. list_agents shows who is there. To make a new agent, choose with list_agent_projects and list_agent_roles, then call create_agent; it waits until the agent is idle.
2. start_agent_task hands an idle agent a task and returns at once. The agent does not see this conversation: put all it needs into task_description.
3. wait_tasks waits up to 50 seconds for any or all of several tasks. A task that still runs is not an error: call wait_tasks again.
4. show_task with include_payload gives the result; show_agent_task_history lists what an agent has done, by pages.

While a task runs, show_task previews its output, watch_fleet reads events after a cursor, send_task_message adds to the task, and stop_agent_task ends it.

A failed call answers with JSON {"error", "message", "details"}. Act on "error": AGENT_BUSY means wait or use another agent, AGENT_OFFLINE means start_agent first, BACKEND_UNAVAILABLE means try again later; the message says what else can be done.
Give calls that change something a request_id of your own: when a call was cut off, the same call with the same request_id is safe.
stop_agent keeps a workspace, delete_agent destroys it.`
