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
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
)

// settings say how the agent works.
type settings struct {
	state, dir, driver, model, permissionMode, promptFile string

	maxOutput int64
	grace     time.Duration
	logger    *slog.Logger
}

// machine is where the agent works. It has the runners of agents, each with a directory of its own for its runs: a workspace
// has one agent, and a new one when Fleet has taken it in anew.
type machine struct {
	settings
	program driver.Driver
	host    *runner.Host
}

func newMachine(s settings) (*machine, error) {
	var err error
	if s.state == "" {
		if s.state, err = defaultState(); err != nil {
			return nil, fmt.Errorf("-state: %w", err)
		}
	}
	if s.dir == "" {
		if s.dir, err = os.UserHomeDir(); err != nil {
			return nil, fmt.Errorf("-dir: %w", err)
		}
	}
	for _, dir := range []*string{&s.state, &s.dir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(*dir, 0o700); err != nil {
			return nil, err
		}
	}
	program, err := driver.New(driver.Options{Kind: s.driver})
	if err != nil {
		return nil, fmt.Errorf("-driver: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &machine{s, program, runner.New(runner.Config{
		ShimCommand: []string{self, "shim"}, MaxOutput: s.maxOutput, StopGrace: s.grace, Logger: s.logger,
	})}, nil
}

// Connect implements remote.Runners.
func (m *machine) Connect(a fleet.Agent) fleet.Runner {
	home := filepath.Join(m.state, "agents", runner.FileName(a.UID))
	return m.host.Agent(a.Name, runner.Home(home), workspace{m, a, home})
}

// workspace is the machine as one agent has it.
type workspace struct {
	*machine
	agent fleet.Agent
	home  string
}

// Ready implements runner.Workspace. It makes the agent's directory.
func (w workspace) Ready() error {
	err := os.MkdirAll(filepath.Join(w.home, "runs"), 0o700)
	if err == nil {
		if f, ferr := agentfile.Create(filepath.Join(w.home, "log")); ferr == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return runner.HostError("the directory for runs cannot be made", err)
	}
	if info, err := os.Stat(w.dir); err != nil || !info.IsDir() {
		return fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work, its directory %s is gone", w.agent.Name, w.dir)
	}
	return nil
}

// Work implements runner.Workspace.
func (w workspace) Work(r fleet.Run) (runner.Work, error) {
	prompt := ""
	if w.promptFile != "" {
		b, err := os.ReadFile(w.promptFile)
		if err != nil {
			return runner.Work{}, fleet.Errorf(fleet.ReasonProvisioningFailed,
				"what the agent %q is told about its role cannot be read from %s: restore the file", w.agent.Name, w.promptFile).Because(err)
		}
		prompt = string(b)
	}
	return runner.Work{
		Driver: w.program, Dir: w.dir, Environ: environ,
		Job: driver.Job{
			TaskID: r.TaskID, Prompt: r.Prompt, Agent: w.agent.Name, Project: w.agent.Project, Spec: w.agent.Spec, OneTask: w.agent.OneTask,
			Role: driver.Role{Name: w.agent.Role, Prompt: prompt, Model: w.model, PermissionMode: w.permissionMode},
		},
	}, nil
}

// environ is the environment of a run: the workspace's own, which is there for the agent, and what tells about the task.
// Coder's own variables are left out, and git's ways to ask Coder: with them, the logins of the workspace's owner can be had.
func environ(own map[string]string) []string {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	for _, v := range os.Environ() {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" && !reserved(name) {
			env[name] = value
		}
	}
	maps.Copy(env, own)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func reserved(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_") || name == "GIT_ASKPASS" || name == "GIT_SSH_COMMAND"
}

// Tree implements runner.Workspace. What tasks change is not asked for over the network.
func (w workspace) Tree() (*runner.Tree, error) { return nil, nil } //nolint:nilnil // as the interface says
