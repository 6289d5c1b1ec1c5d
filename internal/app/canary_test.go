package app

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/identity/coder/codertest"
	"fleet/internal/identity/oidc/oidctest"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// canary is the beginning of every secret that the test chooses. The rest of the secret says which secret it is.
const canary = "canary7f3a"

// findCanaries returns the secrets in the text that begin with canary.
func findCanaries(text []byte) (found []string) {
	for _, b := range regexp.MustCompile(canary+`-[a-z]+`).FindAll(text, -1) {
		found = append(found, string(b))
	}
	return found
}

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string { return string(l.Bytes()) }

func (l *lockedBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// TestCanaries puts a secret into every input that may have one, lets agents work and fail, and checks that the secrets
// are not in any place where they must not be. The test sets the environment of the process, so it is not parallel.
func TestCanaries(t *testing.T) { //nolint:paralleltest // see above
	f := newCanaryFleet(t)
	hookSecret := f.letAgentWork(t)
	f.failCalls(t)
	f.signIntoPage(t)
	f.callWithExternalTokens(t, f.issuer, f.coder)
	f.checkSupportBundles(t)
	f.checkEvents(t)
	require.NoError(t, f.stop())

	// Traces leave the server. They must not even have the texts of the owner.
	traces := fmt.Sprintf("%+v", f.spans.all)
	for _, name := range []string{"FleetService/StartAgentTask", "task.dispatch", "agent.provision"} {
		require.Contains(t, traces, name)
	}
	require.Empty(t, findCanaries([]byte(traces)))
	require.NotContains(t, f.log.String(), canary, "the log must not have a secret, even after the server has ended")
	require.NotContains(t, f.log.String(), hookSecret)

	// The store has the owner's texts, since they are data, but no secret of the configuration, no token and no cookie.
	stored := f.storedText(t)
	require.Contains(t, stored, canary+"-spec")
	require.NotContains(t, stored, hookSecret, "secrets of webhooks are derived, and not stored")
	require.Empty(t, regexp.MustCompile(canary+`-(environ|repository|check|prompt|codertoken|metrics|postgres|header|query|body|session|code)`).FindAllString(stored, -1))
	for who, secret := range f.secrets {
		require.NotContains(t, stored, secret, "the token of %s", who)
		require.NotContains(t, traces, secret, "the token of %s", who)
		require.NotContains(t, f.log.String(), secret, "the token of %s", who)
	}
}

// canaryFleet is a fleet with secrets in its configuration and in the environment of the process.
type canaryFleet struct {
	*testFleet
	configFile string   // for programs that read the configuration
	environ    []string // for these programs
	log        *lockedBuffer
	spans      *spanExporter
	issuer     *oidctest.Issuer
	coder      *codertest.Deployment
}

func newCanaryFleet(t *testing.T) *canaryFleet {
	t.Helper()
	for _, name := range []string{"CODER_SESSION_TOKEN", "ANTHROPIC_API_KEY", "OF_THE_SERVER"} {
		t.Setenv(name, canary+"-environ")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization="+canary+"-environ")
	t.Setenv("CANARY_PASSED", canary+"-passed")
	secretFile, metricsFile := filepath.Join(t.TempDir(), "coder-token"), filepath.Join(t.TempDir(), "metrics-token")
	require.NoError(t, os.WriteFile(secretFile, []byte(canary+"-codertoken"), 0o600))
	require.NoError(t, os.WriteFile(metricsFile, []byte(canary+"-metrics"), 0o600))
	file := writeConfig(t, strings.ReplaceAll(`
auth: tokens
log_level: debug
public_url: http://me:SECRET-url@fleet.example.com
coder: {url: "http://127.0.0.1:1", token_file: `+secretFile+`}
metrics: 127.0.0.1:0
metrics_token_file: `+metricsFile+`
local:
  pass_env: [CANARY_PASSED]
  projects:
    - {name: shell, env: {KEY: SECRET-env}}
    - name: cloned
      repository: http://me:SECRET-repository@127.0.0.1:1/x.git
      checks: ["curl -H 'X-Key: SECRET-check' 127.0.0.1:1"]
      roles: [{name: coder, prompt: SECRET-prompt}]
`, "SECRET", canary))
	f := &canaryFleet{configFile: file, log: &lockedBuffer{}, spans: &spanExporter{}}
	f.issuer, f.coder = oidctest.New(t, oidcUsers...), codertest.New(t)
	f.environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "FLEET_OIDC_CLIENT_SECRET=" + canary + "-oidc"}
	f.testFleet = newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"root": {Admin: true}, "alice": {}},
		Config: func(c *Config) {
			loaded, err := Load(file, f.environ, nil)
			require.NoError(t, err)
			c.Local, c.LogLevel, c.PublicURL, c.Places, c.Coder = loaded.Local, loaded.LogLevel, loaded.PublicURL, []string{"local"}, loaded.Coder
			c.Metrics, c.MetricsTokenFile = loaded.Metrics, loaded.MetricsTokenFile
			oidcAuth(f.issuer, AuthTokens, AuthCoder, AuthOIDC)(c)
			c.CoderAuth.URL = f.coder.URL
			if pgtest.Enabled() {
				c.Store = pgtest.URL(t) + "&password=" + canary + "-postgres"
			}
		},
		Options: func(o *Options) { o.Places, o.Log, o.Spans = nil, f.log, f.spans.exporter },
	})
	f.telemetry.FlushTimeout = waittest.Limit
	f.environ = append(f.environ, "FLEET_HTTP="+f.HTTPAddr(), "FLEET_GRPC="+f.GRPCAddr(), "FLEET_DATA="+f.cfg.Data, "FLEET_STORE="+f.cfg.Store)
	return f
}

// letAgentWork lets an agent work, with secrets in all texts of its owner. The agent's program must not have the server's secrets. It returns
// the secret of a webhook.
func (f *canaryFleet) letAgentWork(t *testing.T) (hookSecret string) {
	t.Helper()
	client, ctx := fleetv1.NewFleetServiceClient(f.conn), f.authContext(t.Context(), "alice")
	_, err := client.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "papi", Project: "shell", Spec: canary + "-spec"})
	require.NoError(t, err)
	started, err := client.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{
		AgentName: "papi", TaskDescription: "echo " + canary + "-output; env; test $KEY = " + canary + "-env && echo ready; read -r < $FLEET_MESSAGES",
	})
	require.NoError(t, err)
	task := started.GetTask().GetId()
	var output string
	stream, err := client.WatchFleet(ctx, &fleetv1.WatchFleetRequest{TaskId: task, Follow: true})
	require.NoError(t, err)
	for !strings.Contains(output, "ready") {
		m, err := stream.Recv()
		require.NoError(t, err)
		for _, e := range m.GetEvents() {
			if e.GetType() == fleetv1.Event_task_output {
				output += e.GetText() + "\n"
			}
		}
	}
	require.NotContains(t, output, canary+"-environ", "an agent must not have the environment of the server")
	require.Contains(t, output, canary+"-passed")
	for _, line := range commandLines(t) {
		require.Empty(t, findCanaries([]byte(line)), "a command line must not have a secret, because other users can read it: %s", line)
	}
	_, err = client.SendTaskMessage(ctx, &fleetv1.SendTaskMessageRequest{AgentName: "papi", Message: canary + "-message"})
	require.NoError(t, err)
	_, err = client.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
	require.NoError(t, err)
	hook, err := client.CreateWebhook(ctx, &fleetv1.CreateWebhookRequest{Name: "ops", Url: "https://hooks.example.com/" + canary + "-hook/closed", Topics: []fleetv1.Webhook_Topic{fleetv1.Webhook_all}})
	require.NoError(t, err)
	tested, err := client.TestWebhook(ctx, &fleetv1.TestWebhookRequest{Name: "ops"})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Delivery_failed, tested.GetDelivery().GetStatus())
	return hook.GetSecret()
}

// failCalls makes calls that fail. Their errors must not repeat secrets of the callers or of the configuration.
func (f *canaryFleet) failCalls(t *testing.T) {
	t.Helper()
	client, ctx := fleetv1.NewFleetServiceClient(f.conn), f.authContext(t.Context(), "alice")
	var refusals []error
	recordRefusal := func(err error) { require.Error(t, err); refusals = append(refusals, err) }
	_, err := client.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "broken", Project: "cloned", Spec: "s"})
	recordRefusal(err)
	f.secrets["wrong"] = "fleet_" + canary + "-token"
	_, err = client.ListAgents(f.authContext(t.Context(), "wrong"), &fleetv1.ListAgentsRequest{})
	recordRefusal(err)
	for _, header := range []string{"Authorization", "X-Api-Key", "Cookie", "Coder-Session-Token"} {
		for _, path := range []string{"/v1/agents?token=" + canary + "-query", "/mcp"} {
			resp, body := f.send(t, http.MethodPost, f.url(path), `{"key":"`+canary+`-body"`, map[string]string{header: "Bearer " + canary + "-header", "Content-Type": "application/json"})
			require.GreaterOrEqual(t, resp.StatusCode, 400)
			require.NotContains(t, body, canary+"-header")
		}
	}
	for _, secret := range []string{canary + "-metrics", canary + "-metricswrong"} {
		code, body := f.get(t, "http://"+f.metrics.listener.Addr().String()+metricsPath, "Bearer "+secret)
		require.Equal(t, secret == canary+"-metrics", code == http.StatusOK)
		require.Empty(t, findCanaries([]byte(body)))
	}
	for _, err := range refusals {
		require.Empty(t, findCanaries([]byte(fmt.Sprint(err))))
	}
}

// checkSupportBundles checks that support bundles, for admins and for others, have none of the secrets, not even texts that the owner
// may read.
func (f *canaryFleet) checkSupportBundles(t *testing.T) {
	t.Helper()
	bundle := &bytes.Buffer{}
	p := &program{version: "test", environ: f.environ}
	require.NoError(t, p.writeBundle(t.Context(), bundle, f.configFile, f.secrets["root"]))
	content := unpack(t, bundle)
	for _, name := range []string{"version.txt", "configuration.yaml", "doctor.json", "health.json", "metrics.txt", "log.txt", "goroutines.txt"} {
		require.NotEmpty(t, content[name], "%s: %s", name, content["problems.txt"])
	}
	require.Contains(t, string(content["configuration.yaml"]), "name: cloned")
	require.Contains(t, string(content["log.txt"]), "StartAgentTask")
	content["the log"] = f.log.Bytes()
	for name, b := range content {
		require.Empty(t, findCanaries(b), name)
		for who, secret := range f.secrets {
			require.NotContains(t, string(b), secret, "the token of %s must not be in %s", who, name)
		}
	}
	require.NoError(t, p.writeBundle(t.Context(), bundle, f.configFile, f.secrets["alice"]), "a caller who is not an admin must get a bundle with fewer files")
	content = unpack(t, bundle)
	require.Contains(t, string(content["problems.txt"]), "admin")
	require.NotContains(t, content, "log.txt")
}

// checkEvents checks that no event has a secret of the configuration or of a caller. Events may have the output of the agent, and the texts of its
// owner.
func (f *canaryFleet) checkEvents(t *testing.T) {
	t.Helper()
	events, err := fleetv1.NewFleetServiceClient(f.conn).WatchFleet(f.authContext(t.Context(), "alice"), &fleetv1.WatchFleetRequest{})
	require.NoError(t, err)
	forbiddenSecrets := regexp.MustCompile(canary + `-(env|passed|environ|repository|check|prompt|codertoken|metrics|postgres|token|header|hook)\b`)
	for read := 0; ; {
		m, err := events.Recv()
		if errors.Is(err, io.EOF) {
			require.Positive(t, read)
			return
		}
		require.NoError(t, err)
		read += len(m.GetEvents())
		for _, e := range m.GetEvents() {
			if e.GetType() != fleetv1.Event_task_output {
				require.Empty(t, forbiddenSecrets.FindAllString(strings.ReplaceAll(e.String(), "test $KEY = "+canary+"-env", ""), -1), e.String())
			}
			for who, secret := range f.secrets {
				require.NotContains(t, e.String(), secret, "the token of %s", who)
			}
		}
	}
}

// signIntoPage begins one session of the page with the token of alice and one with a link, and uses both. It also tries to begin
// sessions with invalid credentials. It adds the code of the link and the parts of the sessions to f.secrets.
func (f *testFleet) signIntoPage(t *testing.T) {
	t.Helper()
	send := func(method, path, body string, want int, header map[string]string) (answer []byte, cookies []*http.Cookie) {
		header = maps.Clone(header)
		header["Content-Type"] = "application/json"
		resp, content := f.send(t, method, f.url(path), body, header)
		require.Equal(t, want, resp.StatusCode, "%s %s: %s", method, path, content)
		require.Empty(t, findCanaries([]byte(content)), "%s %s", method, path)
		return []byte(content), resp.Cookies()
	}
	noHeaders := map[string]string{}
	send(http.MethodPost, "/session", `{"token":"fleet_`+canary+`-session"}`, http.StatusUnauthorized, noHeaders)
	send(http.MethodPost, "/session", `{"code":"`+canary+`-code"}`, http.StatusUnauthorized, noHeaders)
	send(http.MethodGet, "/v1/agents", "", http.StatusUnauthorized, map[string]string{"Cookie": "fleet_session=" + canary + "-cookie", "Fleet-Session": canary + "-session"})
	b, _ := send(http.MethodPost, "/session/links", "", http.StatusOK, map[string]string{"Authorization": f.authorization("alice")})
	var link struct{ Code string }
	require.NoError(t, json.Unmarshal(b, &link))
	require.NotEmpty(t, link.Code)
	f.secrets["the link"] = link.Code
	for caller, body := range map[string]string{"a token": `{"token":"` + f.secrets["alice"] + `"}`, "a link": `{"code":"` + link.Code + `"}`} {
		b, cookies := send(http.MethodPost, "/session", body, http.StatusOK, noHeaders)
		var opened struct{ Session string }
		require.NoError(t, json.Unmarshal(b, &opened))
		require.NotEmpty(t, opened.Session)
		require.Len(t, cookies, 1)
		f.secrets["the cookie by "+caller], f.secrets["the session by "+caller] = cookies[0].Value, opened.Session
		sessionHeaders := map[string]string{"Cookie": cookies[0].Name + "=" + cookies[0].Value, "Fleet-Session": opened.Session}
		send(http.MethodGet, "/v1/agents", "", http.StatusOK, sessionHeaders)
		send(http.MethodGet, "/session", "", http.StatusOK, sessionHeaders)
	}
}

// callWithExternalTokens makes calls with tokens of the issuer and of Coder: with valid tokens, with invalid ones, and with
// a valid one while Coder answers with errors. It adds the tokens to f.secrets.
func (f *testFleet) callWithExternalTokens(t *testing.T, issuer *oidctest.Issuer, coder *codertest.Deployment) {
	t.Helper()
	const userToken, laterToken = canary + "-codercallercodercaller", canary + "-laterlaterlaterlaterla" // they have the form of Coder's tokens
	coder.Add("alice", userToken)
	coder.Add("later", laterToken)
	token := issuer.IDToken(t, "alice")
	secrets := map[string]string{
		"an OIDC user": token, "an OIDC user without a role": issuer.IDToken(t, "carol"), "an expired OIDC user": issuer.SignedToken(t, func(c map[string]any) { c["exp"] = 1 }),
		"a forger": token[:len(token)-8] + "AAAAAAAA", "a Coder user": userToken, "nobody at Coder": canary + "-unknownunknownunknownu", "a Coder user during an outage": laterToken,
	}
	maps.Copy(f.secrets, secrets)
	f.secrets["Fleet at the issuer"] = oidctest.ClientSecret
	for _, caller := range slices.Sorted(maps.Keys(secrets)) {
		coder.Change(func() {
			coder.Status = 0
			if strings.Contains(caller, "outage") {
				coder.Status = http.StatusBadGateway
			}
		})
		for name, face := range faces {
			r, err := face(f, t.Context(), call{method: methods["create_agent"], caller: caller, args: map[string]any{"name": "of-" + name, "project": "shell", "spec": "s"}})
			if caller == "an OIDC user" || caller == "a Coder user" {
				require.NoError(t, err)
				require.Nil(t, r.err, "%s on %s", caller, name)
				continue
			}
			require.True(t, err != nil || r.err != nil, "%s on %s must be refused", caller, name) // an MCP client reports the refusal as its own error
			for who, secret := range f.secrets {
				require.NotContains(t, fmt.Sprintf("%v %+v %v", err, cmp.Or(r.err, &apiError{}), r.header), secret, "%s on %s must not see the token of %s", caller, name, who)
			}
		}
	}
}

// storedText returns the whole content of the store as text. The server must have stopped.
func (f *testFleet) storedText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	if f.cfg.Store == "" {
		for _, path := range []string{f.cfg.sqlitePath(), f.cfg.sqlitePath() + "-wal"} {
			b, err := os.ReadFile(path)
			if !errors.Is(err, os.ErrNotExist) {
				require.NoError(t, err)
			}
			all.Write(b)
		}
		return all.String()
	}
	c, err := pgx.Connect(t.Context(), f.cfg.Store)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	rows, err := c.Query(t.Context(), "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()")
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, tables, "agents")
	for _, table := range tables {
		rows, err := c.Query(t.Context(), "SELECT * FROM "+table)
		require.NoError(t, err)
		for rows.Next() {
			values, err := rows.Values()
			require.NoError(t, err)
			for _, v := range values {
				if b, ok := v.([]byte); ok {
					v = string(b)
				}
				_, _ = fmt.Fprintln(&all, table, v) // a Builder does not fail
			}
		}
		require.NoError(t, rows.Err())
	}
	return all.String()
}

// unpack returns the files of a support bundle by name. It empties the buffer.
func unpack(t *testing.T, b *bytes.Buffer) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(b)
	require.NoError(t, err)
	content := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			b.Reset()
			return content
		}
		require.NoError(t, err)
		content[filepath.Base(h.Name)], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

// commandLines returns the command lines of all processes that this user can see. On systems other than Linux, it returns none.
func commandLines(t *testing.T) (lines []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil { // the process may have ended
			lines = append(lines, string(b))
		}
	}
	require.NotEmpty(t, lines)
	return lines
}

// TestCassettesHaveNoTokens checks that recordings of real servers have no credentials.
func TestCassettesHaveNoTokens(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, dir := range []string{"", "identity"} {
		found, err := filepath.Glob(filepath.Join(repository, "testdata", "cassettes", dir, "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotRegexp(t, `(?i)(coder-session-token|authorization|set-cookie):|\b[A-Za-z0-9]{10}-[A-Za-z0-9]{22}\b`, string(b), path)
	}
}
