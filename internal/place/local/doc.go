// Package local runs agents on this machine. Each agent has a directory, with a git worktree in it if the project has a
// repository. Each task is a process.
//
// Agents run as the same user as the server. Without a sandbox, they are separated by convention only: each agent has a clean
// environment, its own directory and its own branch. See package sandbox for confinement.
//
// If an agent's fleet.AgentConfig names a driver, the configuration has the settings of the agent instead of its project. The
// agent can use only the tools that the configuration allows, and settings files in its working directory are ignored. The
// values of variables for its MCP servers are written only into a file of the run, which is removed with the run.
//
// The place keeps all its state under Config.Dir, so that a restarted server finds it:
//
//	agents/UID/agent.json   who the agent is, and where it works
//	agents/UID/log          events of the agent, for people
//	agents/UID/work/        where the agent works
//	agents/UID/runs/TASK/   one run, see package shim
//	agents/UID/git/         the git directory of the worktree, see package worktree
//	agents/UID/home/, tmp/  HOME and TMPDIR of confined programs
//	agents/UID/active       the run or check that was started last
//	agents/UID/session      the conversation that the agent's next task continues
//	agents/UID/stopped      exists while the agent is stopped
//	agents/UID/state/       the conversation and the todos of an agent on a model
//	kept/UID/               the directory of a deleted agent, if it may have work that exists only there
//	results/UID/            where an agent works whose files are kept for a limited time after its deletion
//	repositories/           copies of repositories that the configuration names by a URL
//	caches/                 the caches that agents of one owner in one project share
//	memory/                 the memories that agents on models share
//	checks/                 the checks of commits, each with its own tree
//	tmp/                    temporary files of the server
//
// Package app creates the place, and the core calls it through fleet.Place. The place runs tasks with package runner.
// It must never pass the whole environment of the server to an agent, only basic variables and those that the driver or the
// configuration names. In a repository it may change only the commits, branches and refs of agents, except through Move and Push of
// fleet.Repository.
package local
