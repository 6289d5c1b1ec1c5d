package mcp

// instructionsOf returns the instructions for a client's model on how to use a toolset. Clients put them before the
// conversation, so they are short and leave out what the tools' descriptions say.
func instructionsOf(toolset string) string {
	text, ok := map[string]string{
		"lifecycle": lifecycleInstructions, "sessions": sessionsInstructions, "providers": providersInstructions,
		"subagents": subagentsInstructions, allToolset: fleetInstructions + "\n\n" + othersInstructions,
	}[toolset]
	if !ok {
		text = fleetInstructions
	}
	return text + "\n\n" + commonInstructions
}

const fleetInstructions = `Fleet runs AI coding agents. Each agent has a workspace of its own and works on one task at a time.

To get work done:
1. list_agents shows the agents. To make a new agent, choose with list_agent_projects and list_agent_roles, then call create_agent; it waits until the agent is idle.
2. run_task gives a task to an agent, a pool, or a new agent of a project, and waits for its end. If it goes on in the background, its result comes by itself: do not ask for it. start_agent_task needs an idle agent and returns at once. The agent does not see this conversation: put all it needs into task_description.
3. wait_tasks waits up to 50 seconds for any or all of several tasks. A task that still runs is not an error: call wait_tasks again.
4. show_task with payload_tail 4000 gives the end of the result, which can be long; include_payload gives it from the beginning. show_agent_task_history lists what an agent has done, by pages.

While a task runs, show_task previews its output, watch_fleet reads events after a cursor, send_task_message adds to the task, and stop_agent_task ends it. An agent with "waiting": true waits for a permission or an answer: list_questions shows what it asks, answer_question answers; wait_tasks with or_question also returns when a task waits for an answer.
stop_agent keeps a workspace, delete_agent destroys it.`

const lifecycleInstructions = `Fleet starts AI agents that work on one contract each, alone.

1. agent_start hands a new agent its contract and returns at once with an agent_id. The agent does not see this conversation: put the objective, the context and the conditions for completion into the contract.
2. agent_status reports the progress of one or several agents. While an agent runs, preview is the end of its output. Pause between calls instead of calling it in a tight loop.
3. A completed agent has a summary. If the result is longer than the summary, payload_url is a download of the result, compressed with gzip.

agent_stop ends an agent that is no longer needed. agent_complete and append_payload are for the agents themselves.`

const sessionsInstructions = `Fleet holds conversations with agents: agents that are defined in files or in a store, and agents of the fleet.

1. list_agents shows the available agents; pull_agent downloads one from a registry.
2. create_agent_session begins a conversation, and send_message adds a turn to it: the agent remembers the earlier turns. invoke_agent asks once, without a conversation.
3. get_agent_session_history shows the messages of a conversation; close_agent_session ends a conversation and its running turn.

A session runs one turn at a time. A session that is not used for a long time is closed automatically.`

const providersInstructions = `Fleet asks AI models and agent programs of many providers.

1. list_available_agents shows the agents and their capabilities. With include_status it also shows whether each agent can be used now; probe_agent_status says why an agent cannot be used.
2. execute_agent_request sends an agent a prompt and waits for the answer. status "error" in the answer means that the agent failed, and error says why.
3. register_tool_with_agent gives agents a tool of yours to call; get_registered_tools and remove_registered_tool show and remove your tools.`

const subagentsInstructions = `Fleet runs specialized subagents, each with permissions, tools and instructions of its own.

list_subagents shows the subagents and their purposes. run_subagent gives a subagent a prompt and waits for its result. The subagent does not see this conversation: put all it needs into prompt and context. If a subagent exists for a piece of work, run it instead of doing the work yourself.`

const othersInstructions = `Besides the fleet there are tools for contracts (agent_start, agent_status), conversations (create_agent_session, send_message), models of other providers (execute_agent_request) and subagents (run_subagent).`

const commonInstructions = `Long answers come in portions. To continue a list, pass its next_cursor as cursor. NAME_next_offset of a text says at which byte the rest begins.
A failed call answers with JSON {"error", "message", "details"}. Act on "error": AGENT_BUSY means wait or use another agent, AGENT_OFFLINE means start_agent first, BACKEND_UNAVAILABLE means try again later, LIMIT_REACHED means do less at a time; the message says what else can be done.
If a call that changes something accepts a request_id, choose one. Then you can safely repeat an interrupted call with the same request_id.`
