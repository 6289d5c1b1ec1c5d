package scripts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/place/local"
)

// TestTokenScripts runs the scripts about servers whose callers need tokens.
func TestTokenScripts(t *testing.T) {
	t.Parallel()
	runScriptsWith(t, "../../../testdata/cli/tokens", func(e *testscript.Env, cfg *app.Config) {
		cfg.Local.Projects = []local.Project{{Name: "shell"}}
		secret, err := createFirstToken(*cfg)
		require.NoError(t, err)
		file := filepath.Join(e.WorkDir, "root")
		require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
		e.Setenv("FLEET_TOKEN_FILE", file)
		cfg.Auth = app.Auth{app.AuthTokens}
	})
}

// createFirstToken creates an admin's token before the server starts, as `fleet token create --embedded` does.
func createFirstToken(cfg app.Config) (secret string, err error) {
	a, err := app.Open(context.Background(), cfg, app.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	r, err := fleetv1.NewTokenServiceClient(a.Conn()).CreateToken(context.Background(), &fleetv1.CreateTokenRequest{Name: "root", Scope: fleetv1.Scope_admin})
	return r.GetSecret(), err
}
