package app

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/telemetry"
)

// answerTo returns the status and the body of a request to an HTTP address.
func (f *testFleet) answerTo(t *testing.T, verb, url, authorization string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), verb, url, nil)
	require.NoError(t, err)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := f.http.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// TestMetricsAreForAdmins checks who can read the metrics.
func TestMetricsAreForAdmins(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}, Config: func(c *Config) { c.Metrics = "127.0.0.1:0" },
	})
	url := "http://" + f.HTTPAddr() + "/metrics"
	for by, want := range map[string]int{"": http.StatusUnauthorized, "alice": http.StatusForbidden, "root": http.StatusOK} {
		header := ""
		if by != "" {
			header = f.authorization(by)
		}
		status, body := f.answerTo(t, http.MethodGet, url, header)
		require.Equal(t, want, status, "%q: %s", by, body)
	}
	status, _ := f.answerTo(t, http.MethodPost, url, f.authorization("root"))
	require.Equal(t, http.StatusMethodNotAllowed, status)

	own := "http://" + f.metrics.listener.Addr().String()
	status, body := f.answerTo(t, http.MethodGet, own+"/metrics", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "fleet_build_info")
	status, _ = f.answerTo(t, http.MethodGet, own+"/v1/agents", "")
	require.Equal(t, http.StatusNotFound, status, "the address serves nothing else")
}

// TestMetricsOfServer checks that a server exports every metric once it has worked, and that no name or text gets into
// them.
func TestMetricsOfServer(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}})
	s := &story{testFleet: f, names: map[string]string{}}
	require.NoError(t, s.do(t.Context(), step{Agent: "papi", By: "alice"}))
	for _, face := range []string{"grpc", "rest", "mcp"} {
		_, err := faces[face](f, t.Context(), call{method: methods["list_agents"], by: "alice", args: map[string]any{}})
		require.NoError(t, err)
	}
	require.Contains(t, f.restStart(t, map[string]string{"Authorization": f.authorization("alice")}), `"status":"running"`)

	_, body := f.answerTo(t, http.MethodGet, "http://"+f.HTTPAddr()+"/metrics", f.authorization("root"))
	for _, m := range telemetry.Metrics() {
		if m.Name != "fleet_place_operation_errors_total" { // there were none
			require.Contains(t, body, "# TYPE "+m.Name+" "+string(m.Kind)+"\n")
		}
	}
	for _, line := range []string{
		`fleet_calls_total{code="OK",face="grpc",method="FleetService/ListAgents"} 1`,
		`fleet_calls_total{code="OK",face="rest",method="FleetService/ListAgents"} 1`,
		`fleet_calls_total{code="OK",face="mcp",method="FleetService/ListAgents"} 1`,
		`fleet_call_duration_seconds_count{face="rest",method="FleetService/StartAgentTask"} 1`,
		`fleet_agents{state="running"} 1`,
		`fleet_place_up{place="fake"} 1`,
		`fleet_place_operation_duration_seconds_count{operation="provision",place="fake"} 1`,
	} {
		require.Contains(t, body, line+"\n")
	}
	for _, secret := range []string{"papi", "alice", f.secrets["alice"]} {
		require.NotContains(t, body, secret)
	}
}
