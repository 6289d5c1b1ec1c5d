package coder_test

import (
	"crypto/ed25519"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/place/placetest"
)

// screens is a place whose workspaces have only AgentAPI.
type screens struct{ fleet.Place }

func (s screens) Traits() fleet.Traits {
	t := s.Place.Traits()
	t.Asks, t.Changes, t.Output, t.Checks, t.Bundles = false, false, false, false, false
	return t
}

// TestSuite runs the suite against the Coder deployment at CODER_URL, as the user of CODER_SESSION_TOKEN. It creates
// and deletes workspaces with the prefix e2e-. They have the template setup-devcontainer, which has AgentAPI.
func TestSuite(t *testing.T) {
	real := realPlace(t)
	open := func(t *testing.T) fleet.Place { return screens{real(t)} }
	placetest.Run(t, placetest.Harness{
		New:     open,
		Reopen:  func(t *testing.T, _ fleet.Place) fleet.Place { return open(t) },
		Project: "Setup", Role: "operator", Begins: "Prompt first",
		Prompts: placetest.Prompts{
			Says: placetest.Prompt{
				Text: "echo first of all\nsecond to none", Lines: []string{"first of all", "second to none"},
				Summary: "first of all\nsecond to none",
			},
			Works:   placetest.Prompt{Text: "sleep 3600", Lines: []string{"working"}},
			Fails:   placetest.Prompt{Text: "fail to compile", Reason: "failed: fail to compile"},
			Listens: placetest.Prompt{Text: "sleep 5", Lines: []string{"working"}},
		},
		TimeLimit: 4 * time.Second,
	})
}

// TestSuiteRunner runs the suite with the template runner, whose workspaces have a fleet-runner.
func TestSuiteRunner(t *testing.T) {
	open := realPlace(t)
	placetest.Run(t, placetest.Harness{
		New:     open,
		Reopen:  func(t *testing.T, _ fleet.Place) fleet.Place { return open(t) },
		Project: "Runner", Role: "operator",
		Checks: placetest.Checks{
			Fails: "echo no compiler >&2; exit 3", Hangs: "echo no compiler; sleep 3600", Output: "no compiler", Sees: "grep 'one line' made",
		},
		Prompts: placetest.Prompts{
			Says: placetest.Prompt{
				Text:    "echo first; echo second >&2; sleep 0.06; echo third; echo all well",
				Lines:   []string{"first", "second", "third"},
				Summary: "all well",
			},
			Works:            placetest.Prompt{Text: "echo at work; sleep 3600", Lines: []string{"at work"}},
			Fails:            placetest.Prompt{Text: "echo no compiler >&2; exit 3", Reason: "exit code 3: no compiler"},
			IgnoresInterrupt: placetest.Prompt{Text: "trap 'echo I do not listen' TERM; echo deaf; while true; do read -t 3600 <$FLEET_MESSAGES || true; done", Lines: []string{"deaf"}, Reply: "I do not listen"},
			Payload:          placetest.Prompt{Text: `printf 'x: 1\ny: 2' >"$FLEET_PAYLOAD"; echo done`, Payload: []byte("x: 1\ny: 2")},
			Changes:          placetest.Prompt{Text: "echo one line >made; echo done", Lines: []string{"+one line", "made"}, Summary: "made"},
			Asks: placetest.Prompt{
				Text:  `echo at work; "$FLEET_ASK" permission Bash '{"command":"touch asked"}' || true; "$FLEET_ASK" question 'tabs or spaces?' tabs spaces`,
				Lines: []string{"at work"},
			},
			Listens: placetest.Prompt{Text: `echo I listen; for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`, Lines: []string{"I listen"}},
		},
		TimeLimit: 2 * time.Second,
	})
}

// realPlace returns a function that opens places on a real Coder deployment. All places have the same key for runners.
// realPlace skips the test if there is no deployment.
func realPlace(t *testing.T) func(t *testing.T) fleet.Place {
	if os.Getenv("FLEET_E2E") == "" {
		t.Skip("set FLEET_E2E=1, CODER_URL and CODER_SESSION_TOKEN to run against a real Coder deployment")
	}
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	prefix := "e2e-"
	return func(t *testing.T) fleet.Place {
		level := slog.LevelWarn
		if testing.Verbose() {
			level = slog.LevelDebug
		}
		b, err := coder.New(coder.Config{
			URL: os.Getenv("CODER_URL"), Token: coder.FindToken(os.Getenv, "", ""),
			Settings: coder.Settings{Prefix: &prefix}, RunnerKey: key,
			Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})),
		})
		require.NoError(t, err)
		return b
	}
}
