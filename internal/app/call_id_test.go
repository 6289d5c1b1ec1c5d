package app

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// TestCallID checks that the log lines of a call, and the entries of the audit log, have the call's id. If only the log has the cause
// of an error, the error must contain the id.
func TestCallID(t *testing.T) {
	t.Parallel()
	log := &jsonLog{}
	f := newTestFleet(t, fleetConfig{
		Options: func(o *Options) { o.Log = log }, Config: func(c *Config) { c.LogFormat, c.LogLevel = "json", "debug" },
	})
	f.place.Fail(fake.Log, 1<<30, errors.New("the secret cause"))
	f.prepare(t, step{Agent: "papi"})
	status, body := f.get(t, f.url("/v1/agents/papi/log"), "")
	require.Equal(t, http.StatusInternalServerError, status)
	require.NotContains(t, body, "secret")

	failedCalls := 0
	ids := map[any]bool{}
	for _, line := range log.linesWithMessage(t, "call") {
		require.Regexp(t, "^[0-9a-f]{16}$", line["call_id"])
		require.NotContains(t, ids, line["call_id"], "two calls must not have the same id")
		ids[line["call_id"]] = true
		if line["level"] == "ERROR" {
			failedCalls++
			require.Contains(t, line["error"], "the secret cause")
			require.Contains(t, body, `"call_id":"`+line["call_id"].(string)+`"`)
		}
	}
	require.Equal(t, 1, failedCalls)
	for _, line := range log.linesWithMessage(t, "audit") {
		require.Contains(t, ids, line["call_id"])
	}
	require.Zero(t, fleet.CallIDFrom(context.Background()))
}
