package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/fake"
	"fleet/internal/telemetry"
)

// TestMetricsAreForAdmins checks that only admins can read the metrics at the HTTP address, and everybody at the metrics address.
func TestMetricsAreForAdmins(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}, Config: func(c *Config) { c.Metrics = "127.0.0.1:0" },
	})
	url := f.url("/metrics")
	for caller, want := range map[string]int{"": http.StatusUnauthorized, "alice": http.StatusForbidden, "root": http.StatusOK} {
		status, body := f.get(t, url, f.authorization(caller))
		require.Equal(t, want, status, "%q: %s", caller, body)
	}
	resp, _ := f.post(t, "/metrics", f.authorization("root"), "")
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)

	metricsURL := "http://" + f.metrics.listener.Addr().String()
	status, body := f.get(t, metricsURL+"/metrics", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "fleet_build_info")
	status, _ = f.get(t, metricsURL+"/v1/agents", "")
	require.Equal(t, http.StatusNotFound, status, "the metrics address must not serve anything else")
}

// TestMetricsToken checks a metrics address with TLS and a token.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	f := newTLSFleet(t, func(_ *tlsFleet, c *Config) { c.Metrics, c.MetricsTokenFile = "127.0.0.1:0", file })
	address := f.metrics.listener.Addr().String() + "/metrics"
	status, _ := f.get(t, "http://"+address, "Bearer first")
	require.Equal(t, http.StatusBadRequest, status, "a request without TLS must be refused")

	ask := func(authorization string, want int) {
		t.Helper()
		status, body := f.get(t, "https://"+address, authorization)
		require.Equal(t, want, status, body)
		require.Equal(t, want == http.StatusOK, strings.Contains(body, "fleet_build_info"))
		require.NotContains(t, body, "first")
	}
	for authorization, want := range map[string]int{
		"": http.StatusUnauthorized, "first": http.StatusUnauthorized, "Bearer second": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized,
		"Bearer first": http.StatusOK,
	} {
		ask(authorization, want)
	}
	require.NoError(t, os.WriteFile(file, []byte("second"), 0o600))
	ask("Bearer first", http.StatusUnauthorized)
	ask("Bearer second", http.StatusOK)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	ask("Bearer ", http.StatusServiceUnavailable)
	ask("", http.StatusServiceUnavailable)
}

// TestMetricsLimits checks that a connection to the metrics address is limited until a request with the token.
func TestMetricsLimits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("right"), 0o600))
	f := newTestFleet(t, fleetConfig{
		Options: func(o *Options) { o.InboundLimits.Bytes = 100 }, // enough for one request
		Config:  func(c *Config) { c.Metrics, c.MetricsTokenFile = "127.0.0.1:0", file },
	})
	connect := func() (ask func(token string) (status int, err error)) {
		c, err := net.Dial("tcp", f.metrics.listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		answers := bufio.NewReader(c)
		return func(token string) (int, error) {
			_, _ = fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token) // the connection may be closed
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				return 0, err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, errors.Join(err, resp.Body.Close())
		}
	}
	known, unknown := connect(), connect()
	for range 3 {
		status, err := known("right")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}
	status, err := unknown("wrong")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status)
	_, err = unknown("wrong")
	require.Error(t, err, "the connection must be closed")
}

// TestMetricsAddress checks which settings for the metrics address are accepted and which are refused.
func TestMetricsAddress(t *testing.T) {
	t.Parallel()
	const tlsFiles = "tls: {cert: c, key: k}\n"
	for text, want := range map[string]string{
		"metrics: 127.0.0.1:8103":                                                 "",
		"metrics: localhost:8103\n" + tlsFiles:                                    "",
		"metrics: 8103":                                                           "metrics is",
		"metrics: :8103":                                                          "metrics_token_file, or metrics_open",
		"metrics: 10.0.0.5:8103\n" + tlsFiles:                                     "metrics_token_file, or metrics_open",
		"metrics: 10.0.0.5:8103\nmetrics_open: true":                              "unencrypted",
		"metrics: 10.0.0.5:8103\nmetrics_token_file: f":                           "unencrypted",
		"metrics: 10.0.0.5:8103\nmetrics_token_file: f\n" + tlsFiles:              "",
		"metrics: 10.0.0.5:8103\nmetrics_open: true\n" + tlsFiles:                 "",
		"metrics: 10.0.0.5:8103\nmetrics_token_file: f\ninsecure_plaintext: true": "",
		"metrics_token_file: f":                                                   "set metrics too",
	} {
		_, err := Load(writeConfig(t, text), nil, nil)
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
	_, err := (&App{cfg: Config{Metrics: "127.0.0.1:0", MetricsTokenFile: "/none/here"}}).listenMetrics(nil)
	require.ErrorContains(t, err, "metrics_token_file cannot be read")
}

// TestMetricsOfServer checks that a server that has worked exports every metric, and that the metrics have no names and
// no texts.
func TestMetricsOfServer(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}, Place: fake.Config{Credentials: map[string]string{"Setup": "max"}}})
	window := `data {"type":"window","limit":{"window":"five_hour","utilization":0.42,"resets_at":"2099-01-01T00:00:00Z"}}`
	f.prepare(t,
		step{Agent: "papi", Caller: "alice"},
		step{Call: "start_agent_task", With: map[string]any{"agent_name": "papi", "task_description": window}, Caller: "alice"},
		step{Call: "list_credentials", Until: map[string]any{"credentials": []any{map[string]any{"name": "max"}}}, Caller: "root"},
		step{Call: "list_tasks", Until: map[string]any{"tasks": []any{map[string]any{"status": "completed"}}}, Caller: "alice"},
	)
	for _, face := range []string{"grpc", "rest", "mcp"} {
		f.call(t, face, "list_agents", "alice", nil)
	}
	require.Contains(t, f.startTaskREST(t, map[string]string{"Authorization": f.authorization("alice")}), `"status":"running"`)
	f.prepare(t, heldTask("papi"), step{Call: "set_budget", With: map[string]any{"name": "all", "limit_usd": 5, "limit_tokens": 1000000}, Caller: "root"})

	_, body := f.get(t, f.url("/metrics"), f.authorization("root"))
	for _, m := range telemetry.Metrics() {
		if m.Name != "fleet_place_operation_errors_total" { // no operation has failed
			require.Contains(t, body, "# TYPE "+m.Name+" "+string(m.Kind)+"\n")
		}
	}
	for _, line := range []string{
		`fleet_queue_tasks{reason="held"} 1`,
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
