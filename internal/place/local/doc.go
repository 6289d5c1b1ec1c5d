// Package local hosts agents on this machine: a directory each, with a git worktree in it when the project names a
// repository, and a process for each task.
//
// Agents run as the user that runs the server. What keeps them apart is tidiness, not walls: a clean environment, a
// directory and a branch of their own. For walls, run the server in a container, or use another backend.
//
// An agent with a recipe belongs to no project: its recipe names the driver and what that needs. It is held to the tools
// that its recipe allows, and settings that lie where it works do not count. The values of variables that its MCP
// servers need go into a file of the run, which ends with the run, and nowhere else.
//
// Everything the backend knows is under Config.Dir, so that a server that was killed finds it all again:
//
//	agents/UID/agent.json   who the agent is, and where it works
//	agents/UID/log          what happened to it
//	agents/UID/work/        where it works
//	agents/UID/runs/TASK/   one run each, see package shim
//	agents/UID/active       the id of the task that may be under way
//	agents/UID/session      the conversation that the agent's next task goes on with
//	agents/UID/stopped      there while the agent is stopped
//	kept/NAME-UID/          work that was uncommitted when its agent was deleted
//	repositories/           copies of repositories that are elsewhere
package local
