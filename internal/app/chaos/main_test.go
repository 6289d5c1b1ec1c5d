// Package chaos runs several real servers on one Postgres, and one on SQLite, under load from all faces. It injects faults into
// servers, clocks, connections, the database and the disk. A model then checks the answers that callers received.
//
// CHAOS sets for how long faults are injected: a number of faults (CHAOS=1000) or a time (CHAOS=10m). CHAOS_SEED repeats
// the random choices of a run. CHAOS_LOGS names a directory for the logs of the servers.
//
// SOAK sets how long servers work without faults, while all data with a retention time expires many times. The memory
// and other resources that the servers use must level off.
package chaos

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/model/run"
	"fleet/internal/place/local"
	modelstub "fleet/internal/place/placetest/model"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// These variables configure the server when the test binary runs as one.
const (
	dataEnv    = "CHAOS_TEST_DATA"
	storeEnv   = "CHAOS_TEST_STORE"
	replicaEnv = "CHAOS_TEST_REPLICA"
	httpEnv    = "CHAOS_TEST_HTTP"
	grpcEnv    = "CHAOS_TEST_GRPC"
	sharedEnv  = "CHAOS_TEST_SHARED"
	repoEnv    = "CHAOS_TEST_REPOSITORY"
	clockEnv   = "CHAOS_TEST_CLOCK"

	definitionsEnv = "CHAOS_TEST_DEFINITIONS"
	sharedLandsEnv = "CHAOS_TEST_SHARED_LANDS" // the work of agents in the shared place can land

	agentsEnv = "CHAOS_TEST_AGENTS" // the limit of agents
	tasksEnv  = "CHAOS_TEST_TASKS"  // the limit of running tasks
)

// leaseTTL is short, so that a server can be paused for longer than its leases many times.
const leaseTTL = time.Second

// TestMain lets the test binary also act as a server, and as the shim of the server's runs.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "model-run" {
		os.Exit(run.Main())
	}
	if os.Getenv(dataEnv) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve runs the server that the variables configure, until SIGTERM.
func serve() error {
	skew, err := time.ParseDuration(os.Getenv(clockEnv))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Store, cfg.Replica = os.Getenv(httpEnv), os.Getenv(grpcEnv), os.Getenv(dataEnv), os.Getenv(storeEnv), os.Getenv(replicaEnv)
	cfg.StopGrace, cfg.Lifecycle.Project, cfg.Webhooks.Allow = 200*time.Millisecond, "shell", []string{"127.0.0.1"}
	cfg.CreateWait = waittest.Limit
	if cfg.Limits.Agents, err = strconv.Atoi(os.Getenv(agentsEnv)); err != nil {
		return err
	}
	if cfg.Limits.RunningTasks, err = strconv.Atoi(os.Getenv(tasksEnv)); err != nil {
		return err
	}
	projects := []local.Project{{Name: "shell", Sandbox: sandbox.None, Roles: []local.Role{{Name: "operator", Permissions: &driver.Permissions{}}}}}
	if repo := os.Getenv(repoEnv); repo != "" {
		projects = append(projects, local.Project{
			Name: "repo", Repository: repo, Sandbox: sandbox.None, Checks: local.Checks{Commands: []string{"[ ! -f check.sh ] || sh check.sh"}},
		})
	}
	localPlace, err := local.New(local.Config{
		Name: fleet.PlaceOn("local", cfg.Replica), Dir: cfg.Data, Program: self,
		Projects: projects,
		PassEnv:  []string{"GORACE"}, Sandbox: sandbox.None, StopGrace: cfg.StopGrace, PollInterval: 500 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	places := []fleet.Place{localPlace}
	if socket := os.Getenv(sharedEnv); socket != "" {
		places = append(places, dialShared(socket))
	}
	if dir := os.Getenv(definitionsEnv); dir != "" {
		places, cfg.Places, cfg.Sessions.AgentsDir = nil, []string{"cagent"}, dir
		cfg.StopGrace = waittest.Limit // a run that is told to end can complete its request
		cfg.Local.Sandbox = sandbox.None
		cfg.Cagent.Prices = map[string]fleet.Price{"anthropic/stub-large": {Output: billCents * 1e4 / modelstub.OutputTokens}}
	}
	a, err := app.Open(context.Background(), cfg, app.Options{
		Log: os.Stderr, Places: places, Clock: func() time.Time { return time.Now().Add(skew) },
		Core: func(c *state.Config) { c.LeaseTTL, c.StartLimit, c.AgeStep = leaseTTL, leaseTTL/2, ageStep },
	})
	if err != nil {
		return err
	}
	s, err := a.Listen("test")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.Serve(ctx)
}
