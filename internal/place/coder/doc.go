// Package coder runs agents in Coder workspaces. A project is a template that can host agents. A role is an option of
// the template's role parameter, or a preset. An agent is a workspace with the app fleet-runner. Fleet communicates
// with the app as the workspace's owner, through Coder's path app proxy. Workspaces that have only AgentAPI work too,
// through package internal/runner/agentapi, which reads the agent's terminal.
//
// All persistent state is in Coder, so that another server can take over after a crash. The package recognises an
// agent's workspace by its owner, name, template and age. It recognises the messages of a task by a mark at their end.
// State in memory only saves requests, or keeps the outcome of a run whose conversation was deleted.
//
// Coder's own Tasks are not used. They are deprecated upstream, and have no history, parameters or queue.
//
// Package app creates the place, and packages service and reconcile call it through fleet.Place. The place calls Coder's API, and
// runs tasks with package remote or agentapi. It must never touch a workspace that does not belong to an agent. Only this package
// and package identity/coder may import codersdk.
package coder
