// Package scripts runs the CLI scripts in testdata/cli against real servers with agents on this machine.
package scripts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/toolset/lifecycle"
	"fleet/internal/toolset/providers"
	"fleet/internal/waittest"
)

func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){
		"fleet":    func() { os.Exit(app.Main(os.Args[1:])) },
		"xdg-open": actAsBrowser,
		"approve":  actAsApprover,
	})
}

// writeShout writes a program that prints its arguments in capitals, and returns its path.
func writeShout(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "shout")
	const program = `#!/bin/sh
case "$1" in
--version) echo shout 1.0 ;;
*) printf '%s' "$1" | tr a-z A-Z ;;
esac
`
	require.NoError(t, os.WriteFile(path, []byte(program), 0o755))
	return path
}

// client is the path of the program face/cli/client. The linker sets it. If it is empty, the scripts use this
// executable.
var client string

// TestScripts runs the scripts that also run in face/cli, where the race detector watches the commands. Here it watches the
// server. If client is set, the scripts call that program.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScriptsWith(t, "../../../testdata/cli", func(e *testscript.Env, _ *app.Config) {
		if client == "" {
			return
		}
		bin := t.TempDir()
		require.NoError(t, os.Symlink(client, filepath.Join(bin, "fleet")))
		e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
	})
}

// TestAskingScripts runs the scripts about agents that ask questions.
func TestAskingScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "../../../testdata/cli/asking", local.Project{Name: "shell", Roles: []local.Role{{Name: "coder", Permissions: &driver.Permissions{
		Allow: []string{"Bash(ls *)"}, Deny: []string{"Bash(rm *)"},
	}}}})
}

// TestDelegationScripts runs the scripts about agents that delegate tasks.
func TestDelegationScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "../../../testdata/cli/delegation", local.Project{Name: "shell", Roles: []local.Role{
		{Name: "coder", Default: true}, {Name: "manager", Delegate: &fleet.Grant{Roles: []string{"coder"}, MaxChildren: 2}},
	}})
}

// TestPageScripts runs the scripts about lists, usage and the search.
func TestPageScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "../../../testdata/cli/page")
}

// TestEnvironmentScripts runs the scripts about the environment of commands and servers.
func TestEnvironmentScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "../../../testdata/cli/environment")
}

// runScripts runs the scripts of a directory, each with its own server that has the projects.
func runScripts(t *testing.T, dir string, projects ...local.Project) {
	runScriptsWith(t, dir, func(_ *testscript.Env, cfg *app.Config) { cfg.Local.Projects = projects })
}

// runScriptsWith runs the scripts of a directory, each with its own server. change may change the configuration of the
// server.
func runScriptsWith(t *testing.T, dir string, change func(e *testscript.Env, cfg *app.Config)) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			cfg := app.DefaultConfig()
			cfg.Lifecycle = lifecycle.Config{Project: "shell", Role: "coder"}
			cfg.Providers.Agents = []providers.Provider{{
				Name: "shout", Kind: providers.KindCLI, Command: []string{writeShout(t), "{{.Prompt}}"},
			}}
			cfg.HTTP, cfg.GRPC, cfg.Data, cfg.StopGrace = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), 500*time.Millisecond
			cfg.Local.Write = []string{e.WorkDir}  // shared by scripts and tasks
			cfg.Local.PassEnv = []string{"GORACE"} // lets shims end at once, also under the race detector
			if err := sqlitetest.Create(filepath.Join(cfg.Data, "fleet.db")); err != nil {
				return err
			}
			change(e, &cfg)
			s, stop, err := start(cfg)
			if err != nil {
				return err
			}
			e.Defer(func() { require.NoError(t, stop()) })
			e.Setenv("FLEET_SERVER", s.GRPCAddr())
			e.Setenv("PROJECT", "shell")
			e.Setenv("SHOUT", "shout")
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}

// start starts a server. The returned function stops it.
func start(cfg app.Config) (*app.Server, func() error, error) {
	a, err := app.Open(context.Background(), cfg, app.Options{
		CloseGrace: waittest.Limit,
		Providers:  func(c *providers.Config) { c.ProbeTimeout = waittest.Limit },
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := a.Listen("test")
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	return s, func() error {
		end()
		return <-served
	}, nil
}
