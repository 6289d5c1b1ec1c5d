// Package coder hosts agents in Coder workspaces. A project is a template that can host an agent, a role is an option
// of its role parameter or a preset, an agent is a workspace with fleet-runner as an app in it, which Fleet speaks to as the
// workspace's owner, through Coder's own path app proxy. A workspace that has only AgentAPI is served too, by package
// internal/runner/agentapi: what its agents say is then read from a terminal.
//
// Coder is the only memory of the package. Which workspace is an agent's is told by its owner, name, template and age,
// and which messages of a conversation belong to a task by a mark at their end, so that a server that crashed, or another
// one, finds everything again. What the package keeps in memory beyond that only saves requests, or tells how a run
// ended whose conversation is gone by now.
//
// Coder's own Tasks are not used: they are deprecated upstream, and have no history, no parameters and no queue.
package coder
