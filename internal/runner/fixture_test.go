package runner

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as the supervisor.
func TestMain(m *testing.M) {
	if code, ran := Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // lets supervisors end at once, also under the race detector
	waittest.VerifyTestMain(m)
}

// fixture is a Host with an agent whose tasks are shell scripts. It implements Workspace.
type fixture struct {
	t           *testing.T
	host        *Host
	home        Home
	agent       Agent
	permissions *driver.Permissions
}

func newFixture(t *testing.T) (*fixture, context.Context) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	x := &fixture{t: t, host: New(Config{Program: exe}), home: Home(t.TempDir())}
	require.NoError(t, os.Mkdir(x.home.path("runs"), 0o700))
	x.agent = x.host.Agent("papi", x.home, x)
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	t.Cleanup(func() {
		defer cancel()
		require.NoError(t, x.host.End(ctx, x.home, "the test is over"))
		x.host.Close()
	})
	return x, ctx
}

func (x *fixture) Ready() error { return nil }

func (x *fixture) Tree() (*Tree, error) { return nil, nil }

func (x *fixture) Work(r fleet.Run) (Work, error) {
	d, err := driver.New(driver.Options{Kind: "shell"})
	return Work{
		Driver: d, Dir: string(x.home), Job: driver.Job{TaskID: r.TaskID, Prompt: r.Prompt, Role: driver.Role{Permissions: x.permissions}},
		Environ: func(taskVariables map[string]string) []string {
			env := []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE")}
			for k, v := range taskVariables {
				env = append(env, k+"="+v)
			}
			return env
		},
	}, err
}

// prepare creates the run, as a call of Dispatch does that is interrupted before it starts the supervisor.
func (x *fixture) prepare(r fleet.Run) ([]string, error) {
	w, err := x.Work(r)
	require.NoError(x.t, err)
	return x.host.prepare(w, r, x.home)
}

func (x *fixture) follow(ctx context.Context, r fleet.Run) (fleet.Outcome, error) {
	return x.agent.Follow(ctx, r, "", func(fleet.Output) error { return nil })
}

// times returns the content of the file times, to which the scripts append a line each time they run.
func (x *fixture) times() string {
	x.t.Helper()
	out, err := os.ReadFile(filepath.Join(string(x.home), "times"))
	require.NoError(x.t, err)
	return string(out)
}

// runToEnd dispatches a run and waits for its end.
func (x *fixture) runToEnd(ctx context.Context, id string) fleet.Run {
	x.t.Helper()
	r := fleet.Run{TaskID: id, Prompt: "true", Timeout: waittest.Limit}
	require.NoError(x.t, x.agent.Dispatch(ctx, r))
	_, err := x.follow(ctx, r)
	require.NoError(x.t, err)
	return r
}
