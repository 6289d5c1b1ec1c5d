// Package scripts runs the command line's scripts in testdata/cli against real servers with agents on this machine.
package scripts

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/backend/local"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(local.ShimMain(os.Args[2:]...))
	}
	testscript.Main(m, map[string]func(){"fleet": func() { os.Exit(app.Main(os.Args[1:])) }})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "../../../testdata/cli",
		Setup: func(e *testscript.Env) error {
			cfg := app.DefaultConfig()
			cfg.HTTP, cfg.GRPC, cfg.Data, cfg.StopGrace = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), 500*time.Millisecond
			a, err := app.Open(context.Background(), cfg, app.Options{})
			if err != nil {
				return err
			}
			s, err := a.Listen("test")
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- s.Serve(ctx) }()
			e.Defer(func() {
				stop()
				require.NoError(t, <-served)
			})
			e.Setenv("FLEET_SERVER", s.GRPCAddr())
			e.Setenv("PROJECT", "shell")
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}
