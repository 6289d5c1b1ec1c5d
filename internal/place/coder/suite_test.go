package coder_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/place/placetest"
)

// TestSuite runs the suite against a real Coder deployment: that of CODER_URL, as the user of CODER_SESSION_TOKEN. It
// makes and deletes workspaces whose names begin with e2e-, of the template setup-devcontainer.
func TestSuite(t *testing.T) {
	if os.Getenv("FLEET_E2E") == "" {
		t.Skip("set FLEET_E2E=1, CODER_URL and CODER_SESSION_TOKEN to run against a real Coder deployment")
	}
	prefix := "e2e-"
	open := func(t *testing.T) fleet.Place {
		level := slog.LevelWarn
		if testing.Verbose() {
			level = slog.LevelDebug
		}
		b, err := coder.New(coder.Config{
			URL: os.Getenv("CODER_URL"), Token: coder.FindToken(os.Getenv, "", ""),
			Settings: coder.Settings{Prefix: &prefix},
			Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})),
		})
		require.NoError(t, err)
		return b
	}
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
		Patience:  5 * time.Minute,
	})
}
