package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
)

// BenchmarkCaches runs `go test` in a module with dependencies. It compares new agents with as many new clones of the module's
// repository. The Go command in the clones has warm caches.
func BenchmarkCaches(b *testing.B) {
	if err := sandbox.Available(); err != nil {
		b.Skip(err)
	}
	m := newCacheBench(b)
	m.runInClones(b, 1)
	m.runInAgents(b, 1, projectSharedCaches) // the first agent fills the caches
	for _, row := range []struct {
		name    string
		agents  int
		project string
		goal    float64
	}{{"second-agent", 1, projectSharedCaches, 1.2}, {"four-agents", 4, projectSharedCaches, 1.2}, {"four-agents-without", 4, projectOwnCaches, 0}} {
		b.Run(row.name, func(b *testing.B) {
			ratios, seconds := []float64{}, []float64{}
			for b.Loop() {
				warm := m.runInClones(b, row.agents)
				elapsed := m.runInAgents(b, row.agents, row.project)
				ratios, seconds = append(ratios, elapsed/warm), append(seconds, elapsed)
			}
			report(b, quantile(seconds, 0.5), "s", "", 0)
			report(b, quantile(ratios, 0.5), "x-of-warm-clone", "at most", row.goal)
		})
	}
}

// cacheBench is a repository with a Go module, and a place whose agents work on it.
type cacheBench struct {
	repo    string
	env     map[string]string // for the agents
	environ []string          // for the clones
	place   *local.Place
}

// Projects of the place.
const (
	projectSharedCaches = "shared"
	projectOwnCaches    = "own"
)

// command returns the command that the agents and the clones run.
func (c *cacheBench) command() string {
	return fullOrSmall("go test ./...", "go mod download golang.org/x/time")
}

func newCacheBench(b *testing.B) *cacheBench {
	dir := b.TempDir()
	c := &cacheBench{repo: filepath.Join(dir, "repo")}
	downloads := strings.TrimSpace(run(b, ".", os.Environ(), "go env GOMODCACHE")) + "/cache/download"
	c.env = map[string]string{"GOPROXY": "file://" + downloads, "GOSUMDB": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
	c.environ = append(os.Environ(), "HOME="+dir, "GOCACHE="+filepath.Join(dir, "go-build"), "GOMODCACHE="+filepath.Join(dir, "go-mod"))
	for name, value := range c.env {
		c.environ = append(c.environ, name+"="+value)
	}
	b.Cleanup(func() { run(b, dir, os.Environ(), "chmod -R u+w .") }) // modules are read-only
	imported := fullOrSmall("google.golang.org/grpc", "golang.org/x/time/rate")
	require.NoError(b, os.MkdirAll(c.repo, 0o700))
	for i := range fullOrSmall(20, 1) {
		require.NoError(b, os.MkdirAll(filepath.Join(c.repo, fmt.Sprintf("p%d", i)), 0o700))
		text := fmt.Sprintf("package p%d\n\nimport (\n\t\"testing\"\n\n\t_ %q\n)\n\nfunc Test(t *testing.T) {}\n", i, imported)
		require.NoError(b, os.WriteFile(filepath.Join(c.repo, fmt.Sprintf("p%d/p_test.go", i)), []byte(text), 0o600))
	}
	fleetModule := filepath.Dir(strings.TrimSpace(run(b, ".", os.Environ(), "go env GOMOD"))) // this machine has the versions that it requires
	run(b, c.repo, c.environ, "cp "+fleetModule+"/go.mod "+fleetModule+"/go.sum .; go mod edit -module example.com/m; git init -q; git add .; git -c user.name=b -c user.email=b commit -qm one")

	exe, err := sandbox.Executable()
	require.NoError(b, err)
	c.place, err = local.New(local.Config{
		Dir: filepath.Join(dir, "data"), Program: exe,
		Projects: []local.Project{
			{Name: projectSharedCaches, Repository: c.repo, Env: c.env, Read: []string{downloads}},
			{Name: projectOwnCaches, Repository: c.repo, Env: c.env, Read: []string{downloads}, Caches: local.CachesOfAgent},
		},
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.place.Close()) })
	return c
}

// run runs the script, which must succeed, and returns its output.
func run(b *testing.B, dir string, environ []string, script string) string {
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), "sh", "-ec", script)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, environ, b.Output()
	out, err := cmd.Output()
	require.NoError(b, err, "%s: %s", script, out)
	return string(out)
}

// measureConcurrent makes n concurrent calls of do, and returns how long they took together, in seconds.
func measureConcurrent(b *testing.B, n int, do func(i int) error) float64 {
	var g errgroup.Group
	start := time.Now()
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	require.NoError(b, g.Wait())
	return msSince(start) / 1000
}

// runInClones runs the command in n new clones, and returns how long that took, in seconds.
func (c *cacheBench) runInClones(b *testing.B, n int) float64 {
	dir := b.TempDir()
	for i := range n {
		run(b, dir, c.environ, fmt.Sprintf("git clone -q %s %d", c.repo, i))
	}
	return measureConcurrent(b, n, func(i int) error {
		cmd := exec.CommandContext(b.Context(), "sh", "-c", c.command())
		cmd.Dir, cmd.Env = filepath.Join(dir, fmt.Sprint(i)), c.environ
		return cmd.Run()
	})
}

// runInAgents runs the command as a task of each of n new agents, and returns how long that took, in seconds.
func (c *cacheBench) runInAgents(b *testing.B, n int, project string) float64 {
	agents := make([]fleet.Agent, n)
	for i := range agents {
		agents[i] = fleet.Agent{UID: uuid.NewString(), Name: fmt.Sprint("a", i), Owner: "alice", Project: project, Role: "coder"}
		_, err := c.place.Provision(b.Context(), agents[i])
		require.NoError(b, err)
	}
	elapsed := measureConcurrent(b, n, func(i int) error {
		r, task := c.place.Connect(agents[i]), fleet.Run{TaskID: uuid.NewString(), Prompt: c.command(), Timeout: time.Hour}
		if err := r.Dispatch(b.Context(), task); err != nil {
			return err
		}
		var out strings.Builder
		o, err := r.Follow(b.Context(), task, "", func(o fleet.Output) error { out.WriteString(o.Text); return nil })
		if err == nil && o.Status != fleet.TaskCompleted {
			err = fmt.Errorf("%s: %s", o.Reason, out.String())
		}
		return err
	})
	for _, a := range agents {
		_, err := c.place.Delete(b.Context(), a)
		require.NoError(b, err)
	}
	return elapsed
}
