package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/place/cagent"
	"fleet/internal/place/coder"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/runner/remote"
)

// shimCommand is the hidden first argument with which the program runs as the supervisor of one run.
const shimCommand = "shim"

// acpCommand is the hidden first argument with which the program runs as the client of one agent program.
const acpCommand = "acp"

// newBackend returns the backend that the configuration names.
func newBackend(cfg Config, log *slog.Logger) (fleet.Place, error) {
	switch cfg.Backend {
	case "local":
		return newLocal(cfg, log)
	case "coder":
		return newCoder(cfg, log)
	case "fake":
		return fake.New(fake.Config{}), nil
	}
	return nil, fmt.Errorf("backend is %q: it is local, coder or fake", cfg.Backend)
}

// newHosts returns the backends besides the fleet's own, for agents of the other toolsets.
func newHosts(cfg Config, o Options, own fleet.Place, catalog *cagent.Catalog, log *slog.Logger) (map[string]fleet.Place, error) {
	hosts := map[string]fleet.Place{}
	places := own // of sessions that are given a project
	if own.Traits().Name != "local" {
		b, err := newLocal(cfg, log)
		if err != nil {
			return nil, err
		}
		hosts["local"], places = b, b
	}
	models, err := newCagent(cfg, o, catalog, places, log)
	if err != nil {
		return nil, errors.Join(err, closeAll(hosts))
	}
	if models != nil {
		hosts["cagent"] = models
	}
	// One that `coder login` left on this machine is not asked unless the configuration names it.
	if own.Traits().Name != "coder" && cfg.Coder.URL != "" {
		b, err := newCoder(cfg, log)
		if err != nil {
			return nil, errors.Join(err, closeAll(hosts))
		}
		hosts["coder"] = b
	}
	return hosts, nil
}

// closeAll closes the backends.
func closeAll(hosts map[string]fleet.Place) error {
	var errs []error
	for _, b := range hosts {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

func newLocal(cfg Config, log *slog.Logger) (fleet.Place, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the program does not know where it is, and must to supervise runs: %w", err)
	}
	projects := cfg.Local.Projects
	if len(projects) == 0 {
		projects = local.Discover(exec.LookPath)
	}
	return local.New(local.Config{
		Dir: cfg.Data, Projects: projects, ShimCommand: []string{self, shimCommand}, ACPCommand: []string{self, acpCommand}, PassEnv: cfg.Local.PassEnv,
		Sandbox: cfg.Local.Sandbox, Read: cfg.Local.Read, Write: cfg.Local.Write,
		MaxOutput: cfg.MaxOutput, StopGrace: cfg.StopGrace, Logger: log,
	})
}

// newCoder finds the deployment and the token where Coder's own command line has them, unless the configuration says.
func newCoder(cfg Config, log *slog.Logger) (fleet.Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	c := cfg.Coder
	if c.URL == "" {
		c.URL = coder.FindURL(os.Getenv, home)
	}
	if c.URL == "" {
		return nil, errors.New("there is no Coder to talk to: set CODER_URL or coder.url, or log in with `coder login`")
	}
	c.Token, c.Logger = coder.FindToken(os.Getenv, home, c.TokenFile), log
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, err
	}
	if c.RunnerKey, err = remote.LoadKey(filepath.Join(cfg.Data, "runner.key")); err != nil {
		return nil, err
	}
	return coder.New(c)
}
