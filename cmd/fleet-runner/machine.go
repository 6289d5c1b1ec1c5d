package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
