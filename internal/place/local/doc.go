// Package local runs agents on this machine. Each agent has a directory, with a git worktree in it if the project has a
// repository. Each task is a process.
//
// Agents run as the user who runs the server. Without a sandbox they are separated by convention only: a clean
// environment, and a directory and a branch of their own. See package sandbox for confinement.
//
// An agent with a fleet.AgentConfig has no project: the configuration names the driver and its options. The agent can
// use only the tools that the configuration allows, and settings files in its working directory are ignored. The values
// of variables for its MCP servers are written only into a file of the run, which is removed with the run.
//
// The place keeps all its state under Config.Dir, so that a restarted server finds it:
//
//	agents/UID/agent.json   who the agent is, and where it works
//	agents/UID/log          what happened to it
//	agents/UID/work/        where it works
//	agents/UID/runs/TASK/   one run each, see package shim
//	agents/UID/active       the id of the task that may be running
//	agents/UID/session      the conversation that the agent's next task continues
//	agents/UID/stopped      exists while the agent is stopped
//	kept/NAME-UID/          uncommitted work of a deleted agent
//	repositories/           copies of repositories that the configuration names by a URL
//
// Package app creates it, and the core calls it through fleet.Place. It runs tasks with package runner. It must never
// pass the server's environment to an agent, or change a repository other than by adding the agent's commits.
package local
