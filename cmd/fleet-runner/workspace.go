package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/worktree"
)

// workspace implements runner.Workspace for one agent of the machine.
type workspace struct {
	*machine
	agent fleet.Agent
	home  string
}

// Ready implements runner.Workspace. It creates the directory for the agent's runs, and returns AGENT_OFFLINE if the
// working directory is missing.
func (w workspace) Ready() error {
	if err := runner.Home(w.home).Make(); err != nil {
		return runner.HostError("cannot create the directory for runs", err)
	}
	if info, err := os.Stat(w.workDir); err != nil || !info.IsDir() {
		return fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work: %s is not a directory: create it, or set -dir", w.agent.Name, w.workDir)
	}
	return nil
}

// Work implements runner.Workspace.
func (w workspace) Work(fleet.Run) (runner.Work, error) {
	prompt := ""
	if w.promptFile != "" {
		b, err := os.ReadFile(w.promptFile)
		if err != nil {
			return runner.Work{}, fleet.Errorf(fleet.ReasonProvisioningFailed,
				"cannot read the role prompt of agent %q from %s: restore the file", w.agent.Name, w.promptFile).WithCause(err)
		}
		prompt = string(b)
	}
	role := driver.Role{Name: w.agent.Role, Prompt: prompt, Model: w.model, PermissionMode: w.permissionMode}
	if w.canAsk {
		role.Permissions = &w.permissions
	}
	author := runner.AuthorVariables(w.workDir, environ(nil), w.agent.Name)
	// The workspace itself limits what the program can access, so the program runs without a sandbox.
	return runner.Work{
		Driver: w.agentDriver, Dir: w.workDir,
		Environ: func(runVariables map[string]string) []string {
			all := maps.Clone(runVariables)
			maps.Copy(all, author)
			return environ(all)
		},
		Job: driver.Job{
			Agent: w.agent.Name, Project: w.agent.Project, Spec: w.agent.Spec, OneTask: w.agent.OneTask,
			Role: role,
		},
	}, nil
}

// environ returns the environment of a run: the variables of the workspace, and those in runVariables, which describe the run. It
// omits the variables of Fleet and Coder. It also omits Coder's git credential helpers, which give access to the logins of the
// workspace's owner.
func environ(runVariables map[string]string) []string {
	env := map[string]string{}
	for _, v := range os.Environ() {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" && !isReserved(name) {
			env[name] = value
		}
	}
	maps.Copy(env, runVariables)
	return runner.Environ(env)
}

// isReserved reports whether environ omits the variable.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_") || name == "GIT_ASKPASS" || name == "GIT_SSH_COMMAND"
}

// Tree implements runner.Workspace. It returns the repository that contains the agent's directory, or nil if there is
// no repository. It also returns nil if the repository contains the state of fleet-runner. Such a repository is
// probably a home directory under git, and not the agent's work.
func (w workspace) Tree() (*runner.Tree, error) {
	for dir := w.workDir; ; dir = filepath.Dir(dir) {
		if path, err := filepath.Rel(dir, w.stateDir); err == nil && filepath.IsLocal(path) {
			return nil, nil //nolint:nilnil // see runner.Workspace
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return &runner.Tree{Tree: worktree.Tree{Repository: dir, Dir: dir, UID: w.agent.UID}, Git: w.git, Exclusive: true}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, nil //nolint:nilnil // see runner.Workspace
		}
	}
}
