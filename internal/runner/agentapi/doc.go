// Package agentapi runs the tasks of an agent that Fleet can only reach through AgentAPI. AgentAPI types into the
// agent's terminal and returns what its screen shows. The result is text that was drawn for people: long lines may be
// broken, and parts of the screen may be in it. The tools that the agent used, the cost and the exit code are unknown.
// Every output and every outcome says so: see fleet.Output.Terminal.
//
// It is the second choice, for workspaces without fleet-runner. The place coder calls it, and tells it through
// Workspace how to reach a workspace. It must never present text from a terminal as exact.
//
// The messages of a run are recognised by their words and times, so that a server can find them again after a crash.
// What Runners keep in memory saves requests, or is the outcome of a run whose conversation was deleted.
package agentapi
