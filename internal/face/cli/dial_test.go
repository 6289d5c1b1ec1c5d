package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/cli/login"
)

// TestRenewalErrors checks what a call fails with if its token cannot be renewed: only the end of the session needs another sign-in,
// and Ctrl-C and --timeout have their own exit codes.
func TestRenewalErrors(t *testing.T) {
	t.Parallel()
	stub := newStub(t)
	server, _ := stub.listen(t, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "login.json")
	target := Target{Server: server, Login: &login.TokenSource{Store: login.Store{Dir: dir, NoKeyring: true}, Server: "login"}}
	storeLogin := func(tokens login.Tokens) {
		data, err := json.Marshal(login.Login{Server: "login", Issuer: "http://127.0.0.1:1", ClientID: "x", Tokens: &tokens})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
	storeLogin(login.Tokens{ID: "x", Expiry: time.Now().Add(time.Hour)})
	conn, closeConn, err := DialNetwork(t.Context(), target)
	require.NoError(t, err)
	defer func() { require.NoError(t, closeConn()) }()
	call := func(ctx context.Context) error {
		_, err := fleetv1.NewFleetServiceClient(conn).ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		return err
	}
	codeOf := func(ctx context.Context, err error) int { return newProgram(Deps{}).explain(ctx, err, target).code }
	require.NoError(t, call(t.Context()))
	require.Equal(t, "x", target.Login.Current())

	storeLogin(login.Tokens{ID: "x", Refresh: "x"}) // expired, and the issuer does not answer
	require.Empty(t, target.Login.Current(), "completions do not renew tokens")
	err = call(t.Context())
	require.True(t, isBroken(err), "the call must be repeated")
	require.ErrorContains(t, err, "does not answer")
	require.Equal(t, ExitUnavailable, codeOf(t.Context(), err))
	for cause, want := range map[*failure]int{errInterrupted: ExitInterrupted, errTimeout: ExitTimeout} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := tokenCredentials{target: target}.GetRequestMetadata(ctx)
		require.Equal(t, want, codeOf(ctx, err))
		_, _, err = DialNetwork(ctx, target)
		require.Equal(t, want, codeOf(ctx, err))
	}

	require.NoError(t, os.Remove(file))
	err = call(t.Context())
	require.False(t, isBroken(err))
	require.Equal(t, ExitDenied, codeOf(t.Context(), err))
}
