// Package agentapi runs the tasks of an agent that Fleet can only reach through AgentAPI. AgentAPI types into the
// agent's terminal and returns what its screen shows. The result is text that was drawn for people: long lines may be
// broken, and the text may contain other parts of the screen. The tools that the agent used, the cost and the exit code
// are unknown. Fleet marks every such output and outcome: see fleet.Output.Terminal.
//
// The package is for workspaces without fleet-runner. Prefer fleet-runner where it can be installed. The place coder
// calls the package, and implements Workspace so that the package can reach a workspace. The package must never present
// text from a terminal as exact.
//
// The package recognises the messages of a run by their texts and times, so that a server can find them again after a
// crash. Runners keep data in memory only to save requests, and to know the outcome of a run whose conversation was
// deleted.
package agentapi
