package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
	"fleet/internal/scratch"
)

// settings are the flags of the command serve that say how runs work, and the logger.
type settings struct {
	stateDir, workDir, driver, model, permissionMode, promptFile string

	command     listFlag           // command of the driver; empty means the driver's default
	canAsk      bool               // the agent can ask people
	permissions driver.Permissions // in effect only if canAsk is set

	maxPayloadOutput int64         // limit for the output in a run's payload, in bytes
	maxRawOutput     int64         // limit for the raw output that is kept for a run, in bytes
	grace            time.Duration // how long an interrupted run may take to end
	logger           *slog.Logger
}

// driverNames returns the allowed values of the flag -driver: kinds of drivers, and agent CLIs whose driver options Fleet
// knows.
func driverNames() []string {
	names := slices.Clone(driver.Kinds)
	for _, k := range driver.CLIs() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newDriver returns the driver of the agent's program.
func (s settings) newDriver() (driver.Driver, error) {
	o := driver.Options{Kind: s.driver}
	if i := slices.IndexFunc(driver.CLIs(), func(k driver.CLI) bool { return k.Name == s.driver }); i >= 0 {
		o = driver.CLIs()[i].Options
	}
	if len(s.command) > 0 {
		o.Command = s.command
	}
	return driver.New(o)
}

// machine serves the agents of the workspace in which fleet-runner runs. Normally there is one agent. Each agent has
// its own directory for runs, because Fleet can import the same workspace again as an agent with another uid.
type machine struct {
	settings
	agentDriver driver.Driver
	git         *worktree.Git
	host        *runner.Host
	temp        *scratch.Dir
	checks      repositories.Checks
}

func newMachine(s settings) (*machine, error) {
	var err error
	if s.stateDir == "" {
		if s.stateDir, err = defaultStateDir(); err != nil {
			return nil, fmt.Errorf("-state: %w", err)
		}
	}
	if s.workDir == "" {
		if s.workDir, err = os.UserHomeDir(); err != nil {
			return nil, fmt.Errorf("-dir: %w", err)
		}
	}
	for _, dir := range []*string{&s.stateDir, &s.workDir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(*dir, 0o700); err != nil {
			return nil, err
		}
	}
	agentDriver, err := s.newDriver()
	if err != nil {
		return nil, fmt.Errorf("-driver: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	temp, err := scratch.Open(filepath.Join(s.stateDir, "tmp"))
	if err != nil {
		return nil, err
	}
	m := &machine{settings: s, agentDriver: agentDriver, git: worktree.New(environ(nil), temp.Path()), temp: temp, host: runner.New(runner.Config{
		Program:          self,
		MaxPayloadOutput: s.maxPayloadOutput, MaxRawOutput: s.maxRawOutput, StopGrace: s.grace, Logger: s.logger,
	})}
	m.checks.Dir, m.checks.Host, m.checks.Logger, m.checks.Linger = m.landingDir("checks"), m.host, s.logger, checkLinger
	return m, nil
}

// Connect implements remote.Runners.
func (m *machine) Connect(a fleet.Agent) fleet.Runner {
	home := filepath.Join(m.stateDir, "agents", runner.FileName(a.UID))
	return m.host.Agent(a.Name, runner.Home(home), workspace{m, a, home})
}

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
