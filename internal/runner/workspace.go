package runner

import (
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// Workspace tells a Host how to run an agent's tasks. The package that owns the agent's directory implements it.
type Workspace interface {
	// Ready returns nil if the agent can accept a run, and otherwise an error that says why the agent cannot.
	Ready() error
	// Work returns how to start the agent's program for the run and for its checks. Only Dispatch and Check call it.
	Work(r fleet.Run) (Work, error)
	// Tree returns the agent's repository, or nil if the agent has no repository. It must also work after the agent was
	// deleted.
	Tree() (*Tree, error)
}

// Tree is the repository of an agent.
type Tree struct {
	worktree.Tree
	Git       *worktree.Git
	Exclusive bool // only this agent uses the repository, so its branches exist nowhere else
}

// Work describes how to start a program for a run.
type Work struct {
	Driver  driver.Driver
	Job     driver.Job    // the options of the agent; the host adds the options of the run
	Dir     string        // the working directory
	Timeout time.Duration // upper limit for the run's own time limit; 0 means no upper limit
	// Sandbox limits what the program may access besides its run's files. If Sandbox is nil, the program may access
	// everything that the user of this process may access.
	Sandbox *sandbox.Policy
	// Environ returns the environment of the program. taskVariables describe its task. If Environ is
	// nil, the environment consists of taskVariables, of the BasicVariables of this process's environment, and of the variables that the
	// driver needs.
	Environ func(taskVariables map[string]string) []string
}
