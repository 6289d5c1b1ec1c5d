// Package agentapi runs the tasks of an agent that Fleet reaches by AgentAPI alone. AgentAPI types into the agent's terminal and
// tells what its screen shows, so what comes of it is text that was drawn for people: long lines may be broken, and pieces of
// the screen may stand in it. Nothing tells which tools the agent used, what it cost and how its program ended. Every
// output and every outcome says so: see fleet.Output.Terminal.
//
// It is the second choice, for workspaces without fleet-runner. How a workspace is reached, and what its host knows of it, is the
// host's: see Workspace.
//
// Which messages of a conversation belong to a run is told by their words and times, so that a server that crashed, or
// another one, finds them again. What Runners keep in memory beyond that only saves requests, or tells how a run ended whose
// conversation is gone by now.
package agentapi
