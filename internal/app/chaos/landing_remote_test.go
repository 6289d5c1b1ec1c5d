package chaos

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/runner/remote"
)

// Repository implements fleet.Integrator. It uses the runner of the place, as the place coder uses the runner of a workspace.
func (s *sharedPlace) Repository(project string) (fleet.Repository, error) {
	a := fleet.Agent{UID: "host", Name: "host", Project: project}
	return sharedRepository{s.client.Repository(a, remote.Source{})}, nil
}

// sharedRepository is the repository of a project of the shared place.
type sharedRepository struct{ remote.Repository }

func (r sharedRepository) Collect(ctx context.Context, _ fleet.Agent, c fleet.Changes) error {
	collected, err := r.Repository.Collect(ctx, c.Commit)
	if err == nil && !collected.Found {
		err = fleet.Errorf(fleet.ReasonChangesNotFound, "the work is lost")
	}
	return err
}

// landingRunners are the runners of the fake place. Their repositories combine work, as those of workspaces do.
type landingRunners struct{ *fake.Place }

func (r landingRunners) Repository(_ context.Context, a fleet.Agent, _ remote.Source) (remote.Repository, error) {
	repo, err := r.Place.Repository(a.Project)
	return fakeRepository{repo}, err
}

// fakeRepository is a repository of the fake place in the form that remote.Server needs.
type fakeRepository struct{ fleet.Repository }

func (r fakeRepository) Collect(ctx context.Context, commit string) (remote.CollectResult, error) {
	err := r.Repository.Collect(ctx, fleet.Agent{}, fleet.Changes{Commit: commit})
	return remote.CollectResult{Found: err == nil}, nil
}

func (fakeRepository) Unpack(context.Context, string, io.Reader) (bool, error) { return false, nil }
func (fakeRepository) Pack(context.Context, string, []string, bool, io.Writer) error {
	return fleet.Errorf(fleet.ReasonChangesNotFound, "there is one repository")
}
func (fakeRepository) WriteLFS(context.Context, string, io.Writer) error       { return nil }
func (fakeRepository) AddLFS(context.Context, string, io.Reader) (bool, error) { return false, nil }

// unreliableRunner serves the runners of the place. Unless reliable is set, it loses some requests to combine work and some responses
// to them, and is restarted before some of them.
type unreliableRunner struct {
	runners   remote.Runners
	mu        sync.Mutex
	random    *rand.Rand
	handler   http.Handler
	lostCalls atomic.Int32
	reliable  atomic.Bool
}

// restart replaces the server, as a restart of fleet-runner does.
func (s *unreliableRunner) restart(t *testing.T) {
	server, err := remote.NewServer(s.runners, remote.ServerConfig{Key: sharedKey.Public().(ed25519.PublicKey)}) //nolint:forcetypeassert // of an Ed25519 key
	require.NoError(t, err)
	s.handler = server.Handler()
}

func (s *unreliableRunner) newHandler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n, fault := s.random.IntN(100), strings.HasSuffix(r.URL.Path, "/Integrate") && !s.reliable.Load()
		if fault && n < 5 {
			s.restart(t)
		}
		handler := s.handler
		s.mu.Unlock()
		switch {
		case !fault || n >= 30:
			handler.ServeHTTP(w, r)
			return
		case n >= 15: // the response is lost, otherwise the request
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		s.lostCalls.Add(1)
		panic(http.ErrAbortHandler)
	})
}

// TestChaosLandingRemote lands the work of agents in workspaces while the server is killed, the runner that combines the work
// is restarted, and requests and responses are lost. Each piece of work that can be combined must land once, and no other work may land.
func TestChaosLandingRemote(t *testing.T) {
	t.Setenv(sharedLandsEnv, "1")
	agents, kills := 9, 5
	if os.Getenv("CHAOS") != "" {
		agents, kills = 30, 60
	}
	traits := sharedTraits
	traits.SupportsChanges = true
	place := fake.New(fake.Config{Traits: traits, Projects: []fake.Project{{Project: fleet.Project{Name: "shop", Checks: fleet.Checks{Commands: []string{"both p q"}}}}}})
	runner := &unreliableRunner{runners: landingRunners{place}, random: random(20261128, 2)}
	runner.restart(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "shared")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	serveFakePlace(t, l, place, runner.newHandler(t))

	f := newFleet(t, "landing", fleet.Limits{Agents: 1000, RunningTasks: 1000})
	s := f.addServer(t, "landing", filepath.Join(dir, "data"))
	s.shared = socket
	f.start(t)
	var ids []string
	for n := range agents {
		name := fmt.Sprintf("agent-%d", n)
		file := n
		if n%3 == 1 {
			file = n - 1 // it conflicts with the work of the agent before
		}
		work := fmt.Sprintf("change f%d %s", file, name)
		switch n {
		case 2:
			work = "change p one"
		case 5:
			work = "change q two"
		}
		ids = append(ids, startWork(t, s, name, "shop", work))
	}
	awaitWork(t, s, ids)
	callerRandom := random(20261128, 3)
	f.land(t, callerRandom, ids)
	for range kills {
		pause(t.Context(), between(callerRandom, 100*time.Millisecond, 600*time.Millisecond))
		s.Kill()
		s.startServing(t)
	}
	landings := f.awaitLandings(t, callerRandom, ids)
	runner.reliable.Store(true)

	states := requireRemoteLandings(t, place, ids, landings)
	t.Logf("%d agents, %d kills, %d lost calls: %v", agents, kills, runner.lostCalls.Load(), states)
	require.Positive(t, runner.lostCalls.Load())
}

// requireRemoteLandings checks the landings of TestChaosLandingRemote: one of two tasks lands if they change the same file or fail
// the check together, and each other task lands. It returns the number of tasks by the state of their landing.
func requireRemoteLandings(t *testing.T, place *fake.Place, ids []string, landings map[string]*fleetv1.Landing) map[string]int {
	t.Helper()
	repo, err := place.Repository("shop")
	require.NoError(t, err)
	b, err := repo.Branch(t.Context(), "main")
	require.NoError(t, err)
	inBranch := strings.Split(b.Commit, "+")[1:]
	states := map[string]int{}
	for n, id := range ids {
		l := landings[id]
		states[l.GetState().String()]++
		count := 0
		for _, task := range inBranch {
			if task == id {
				count++
			}
		}
		if l.GetState() != fleetv1.Landing_landed {
			require.Zero(t, count, "%s is in the branch: %v", id, l)
			if n%3 == 2 {
				require.Contains(t, []int{2, 5}, n)
				require.Equal(t, fleetv1.Landing_changes_requested, l.GetState(), "%v", l)
				continue
			}
			require.Equal(t, fleetv1.Landing_conflict, l.GetState(), "%v", l)
			require.Equal(t, fleetv1.Landing_landed, landings[ids[n+1-2*(n%3)]].GetState(), "one of the two must land")
			continue
		}
		require.Equal(t, 1, count, "%s must land once: %v", id, l)
		has, err := repo.Contains(t.Context(), b.Commit, l.GetLandedSha())
		require.NoError(t, err)
		require.True(t, has, "%v", l)
	}
	require.Len(t, inBranch, states["landed"])
	require.Equal(t, len(ids)/3+1, states["conflict"]+states["changes_requested"], "%v", states)
	return states
}
