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
	"fleet/internal/place/local"
	"fleet/internal/place/placetest"
	"fleet/internal/runner/remote"
)

// TestMain makes the test binary its own shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "shim" {
		os.Exit(local.ShimMain(os.Args[2:]...))
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // shims under the race detector end at once too
	os.Exit(m.Run())
}

// place is the place "local" whose runs are reached over a network that cuts connections.
type place struct {
	*local.Place
	dir    string
	client *remote.Client
	close  func()
}

func (p *place) Connect(a fleet.Agent) fleet.Runner { return p.client.Connect(a) }

// Traits takes out what does not cross the network: recipes and changes.
func (p *place) Traits() fleet.Traits {
	t := p.Place.Traits()
	t.Changes = false
	t.Drivers, t.TakesReport = nil, false
	return t
}

func (p *place) Close() error {
	p.close()
	return p.Place.Close()
}

func open(t *testing.T, dir string, change func(*remote.ClientConfig)) *place {
	exe, err := os.Executable()
	require.NoError(t, err)
	b, err := local.New(local.Config{
		Dir: dir, ShimCommand: []string{exe, "shim"}, StopGrace: 300 * time.Millisecond, PassEnv: []string{"GORACE"},
		Projects: local.Discover(func(string) (string, error) { return "", exec.ErrNotFound }),
	})
	require.NoError(t, err)
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	s, err := remote.NewServer(b, remote.ServerConfig{Key: public, Heartbeat: 100 * time.Millisecond})
	require.NoError(t, err)
	server := httptest.NewServer(s.Handler())
	cutter := newCutter(t, server.Listener.Addr().String())
	transport := &http.Transport{}
	c := remote.ClientConfig{URL: "http://" + cutter.addr(), Key: key, HTTP: &http.Client{Transport: transport}, Silence: 5 * time.Second}
	if change != nil {
		change(&c)
	}
	return &place{b, dir, remote.NewClient(c), sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cutter.close()
		server.Close()
	})}
}

// TestSuite holds a remote runner to what a local one is held to, with a proxy between that cuts connections.
func TestSuite(t *testing.T) { suite(t, nil) }

// TestSuiteBounded does the same with streams that end before their runs.
func TestSuiteBounded(t *testing.T) {
	suite(t, func(c *remote.ClientConfig) { c.MaxWait = 150 * time.Millisecond })
}

func suite(t *testing.T, change func(*remote.ClientConfig)) {
	placetest.Run(t, placetest.Harness{
		New: func(t *testing.T) fleet.Place { return open(t, t.TempDir(), change) },
		Reopen: func(t *testing.T, b fleet.Place) fleet.Place {
			old := b.(*place)
			old.close()
			return open(t, old.dir, change)
		},
		Project: "shell",
		Role:    "operator",
		Prompts: placetest.Prompts{
			Says: placetest.Prompt{
				Text:    "echo first; echo second >&2; sleep 0.06; echo third; echo all well",
				Lines:   []string{"first", "second", "third"},
				Summary: "all well",
			},
			Works:   placetest.Prompt{Text: "echo at work; sleep 3600", Lines: []string{"at work"}},
			Fails:   placetest.Prompt{Text: "echo no compiler >&2; exit 3", Reason: "exit code 3: no compiler"},
			Deaf:    placetest.Prompt{Text: "trap 'echo I do not listen' TERM; echo deaf; while true; do read -t 3600 <$FLEET_MESSAGES || true; done", Lines: []string{"deaf"}, Reply: "I do not listen"},
			Payload: placetest.Prompt{Text: `printf 'x: 1\ny: 2' >"$FLEET_PAYLOAD"; echo done`, Payload: []byte("x: 1\ny: 2")},
			Listens: placetest.Prompt{Text: `echo I listen; for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`, Lines: []string{"I listen"}},
		},
	})
}
