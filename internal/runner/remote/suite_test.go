package remote_test

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/remote"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as the runner's helpers.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // lets supervisors end at once, also under the race detector
	os.Exit(m.Run())
}

// remotePlace is a place whose runners are reached over a network that cuts connections.
type remotePlace struct {
	fleet.Place
	dir    string
	client *remote.Client
	close  func()
}

func (p *remotePlace) Connect(a fleet.Agent) fleet.Runner { return p.client.Connect(a) }

// Traits returns the place's traits without those that do not hold over the network.
func (p *remotePlace) Traits() fleet.Traits {
	t := p.Place.Traits()
	t.Drivers, t.ReachesFleet = nil, false
	return t
}

func (p *remotePlace) Close() error {
	p.close()
	return p.Place.Close()
}

// openRemote serves the runners of the place b, and returns a place whose Connect reaches them through a client. The client's
// streams last for maxWait at most, or until their runs end if maxWait is 0.
func openRemote(t *testing.T, b fleet.Place, dir string, maxWait time.Duration) *remotePlace {
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	s, err := remote.NewServer(b, remote.ServerConfig{Key: public, Heartbeat: 100 * time.Millisecond})
	require.NoError(t, err)
	server := httptest.NewServer(s.Handler())
	cutter := newCutter(t, server.Listener.Addr().String())
	transport := &http.Transport{}
	c := remote.ClientConfig{
		URL: "http://" + cutter.addr(), Key: key, HTTP: &http.Client{Transport: transport}, IdleTimeout: 5 * time.Second, RetryTimeout: waittest.Limit, MaxWait: maxWait,
	}
	return &remotePlace{b, dir, remote.NewClient(c), sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cutter.close()
		server.Close()
	})}
}

// openLocal returns the place local in the directory, with the projects that the suite needs.
func openLocal(t *testing.T, dir, repository string, fakeClaude placetest.FakeClaude) fleet.Place {
	exe, err := sandbox.Executable()
	require.NoError(t, err)
	c := local.Config{
		Dir: dir, Program: exe, StopGrace: 300 * time.Millisecond, PassEnv: []string{"GORACE"},
		Projects: local.Discover(func(string) (string, error) { return "", exec.ErrNotFound }),
	}
	c.Projects = append(c.Projects, local.Project{Name: "repository", Repository: repository}, local.Project{
		Name: "talks", Driver: "claude", Command: []string{fakeClaude.Program}, Env: map[string]string{"CLAUDE_CONFIG_DIR": fakeClaude.Config},
		Write: []string{fakeClaude.Config}, Roles: []local.Role{{Name: "operator"}},
	})
	for name, timeout := range map[string]time.Duration{"asking": waittest.Limit, "hasty": 20 * time.Millisecond} {
		c.Projects = append(c.Projects, local.Project{Name: name, Roles: []local.Role{{Name: "operator", Permissions: &driver.Permissions{Timeout: timeout}}}})
	}
	b, err := local.New(c)
	require.NoError(t, err)
	return b
}

// TestSuite runs the suite with a remote runner of real processes behind a proxy that cuts connections.
func TestSuite(t *testing.T) {
	repository := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "sh", "-c",
		`git init -q -b main "$0" && cd "$0" && echo one >file && git add file && git -c user.name=a -c user.email=a@example.com commit -qm one`, repository).CombinedOutput()
	require.NoError(t, err, "%s", out)
	fakeClaude := placetest.NewFakeClaude(t)
	placetest.Run(t, placetest.Harness{
		New: func(t *testing.T) fleet.Place {
			dir := t.TempDir()
			return openRemote(t, openLocal(t, dir, repository, fakeClaude), dir, 0)
		},
		Reopen: func(t *testing.T, b fleet.Place) fleet.Place {
			old := b.(*remotePlace)
			old.close()
			return openRemote(t, openLocal(t, old.dir, repository, fakeClaude), old.dir, 0)
		},
		Project:    "shell",
		Repository: "repository",
		Role:       "operator",
		Forget:     fakeClaude.Forget,
		Checks:     placetest.ShellChecks(),
		Prompts:    placetest.AskingShellPrompts(),
	})
}

// TestSuiteFake runs the suite with the fake place, which reports changes and checks at once. It also runs the suite
// with streams that end before their runs.
func TestSuiteFake(t *testing.T) {
	for name, wait := range map[string]time.Duration{"whole": 0, "bounded": 150 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			placetest.Run(t, placetest.Harness{
				New: func(t *testing.T) fleet.Place {
					b := fake.New(fake.Config{Traits: fleet.Traits{SupportsChanges: true, SupportsOutput: true, SupportsChecks: true, SupportsBundles: true}})
					t.Cleanup(b.Destroy)
					return openRemote(t, b, "", wait)
				},
				Reopen: func(t *testing.T, b fleet.Place) fleet.Place {
					old := b.(*remotePlace)
					old.close()
					return openRemote(t, old.Place, "", wait)
				},
				Project: "Setup",
				Role:    "operator",
				Checks:  placetest.FakeChecks(),
				Prompts: placetest.FakePrompts(),
			})
		})
	}
}
