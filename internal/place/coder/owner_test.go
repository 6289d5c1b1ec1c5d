package coder_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/waittest"
)

// TestOwnerPrincipal uses an admin's token to create an agent whose workspace belongs to the agent's owner in Coder. It needs the
// test bed.
func TestOwnerPrincipal(t *testing.T) {
	admin := os.Getenv("TESTBED_ADMIN_TOKEN")
	if os.Getenv("FLEET_E2E") == "" || admin == "" {
		t.Skip("set FLEET_E2E=1 and the environment of testdata/coder-testbed/env.sh")
	}
	before := countTokens(t, admin) // tokens that exist before the test, for example from experiments
	prefix := "own-"
	p, err := coder.New(coder.Config{
		URL: os.Getenv("CODER_URL"), Token: func(context.Context) (string, error) { return admin, nil }, Owner: coder.OwnerPrincipal,
		Settings: coder.Settings{Prefix: &prefix},
	})
	require.NoError(t, err)
	a := fleet.Agent{UID: "uid", Name: "principal", Owner: "alice", Project: "Setup", Role: "coder", Spec: "A spec.", CreatedAt: time.Now()}
	t.Cleanup(func() {
		_, err := p.Delete(context.Background(), a)
		require.NoError(t, err)
		require.Greater(t, countTokens(t, admin), before)
		require.NoError(t, p.Close())
		require.Equal(t, before, countTokens(t, admin), "the tokens that Fleet has created must be revoked")
	})
	w, err := p.Provision(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, "alice", w.Owner)
	waittest.Until(t, "Coder has no signal for the state of a workspace", func() bool {
		w, err := p.Inspect(t.Context(), a)
		return err == nil && w.State == fleet.StateRunning
	})
	r := fleet.Run{TaskID: "t", Prompt: "echo as alice", Started: time.Now(), Timeout: waittest.Limit}
	require.NoError(t, p.Connect(a).Dispatch(t.Context(), r))
	o, err := p.Connect(a).Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
	require.NoError(t, err)
	require.Equal(t, fleet.Outcome{Status: fleet.TaskCompleted, Summary: "as alice", Payload: []byte("as alice"), Terminal: true}, o)
	all, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "alice", all[0].Owner)
	_, err = p.Provision(t.Context(), fleet.Agent{UID: "u2", Name: "nobody", Owner: "no-such-user", Project: "Setup", Role: "coder"})
	require.Error(t, err)
}

// countTokens returns the number of alice's tokens that Fleet created.
func countTokens(t *testing.T, admin string) int {
	r, err := http.NewRequest(http.MethodGet, os.Getenv("CODER_URL")+"/api/v2/users/alice/keys/tokens", nil)
	require.NoError(t, err)
	r.Header.Set("Coder-Session-Token", admin)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	var tokens []struct {
		TokenName string `json:"token_name"`
	}
	require.NoError(t, json.Unmarshal(body, &tokens))
	n := 0
	for _, token := range tokens {
		if strings.HasPrefix(token.TokenName, "fleet-") {
			n++
		}
	}
	return n
}
