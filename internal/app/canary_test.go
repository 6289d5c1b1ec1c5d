package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/store/postgres/pgtest"
)

// canary is in every secret of the test, with what it is after it.
const canary = "canary7f3a"

// canaries returns the canaries in the text, so that a failure names them.
func canaries(text []byte) (found []string) {
	for _, b := range regexp.MustCompile(canary+`-[a-z]+`).FindAll(text, -1) {
		found = append(found, string(b))
	}
	return found
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// TestCanaries puts a secret into every input that may have one, lets agents work and fail, and looks for it wherever it must
// not be. The test sets the environment of the process, so it is not parallel.
func TestCanaries(t *testing.T) { //nolint:paralleltest // see above
	for _, name := range []string{"CODER_SESSION_TOKEN", "ANTHROPIC_API_KEY", "OF_THE_SERVER"} {
		t.Setenv(name, canary+"-environ")
	}
	t.Setenv("CANARY_PASSED", canary+"-passed")
	secretFile := filepath.Join(t.TempDir(), "coder-token")
	require.NoError(t, os.WriteFile(secretFile, []byte(canary+"-codertoken"), 0o600))
	file := writeConfig(t, strings.ReplaceAll(`
auth: tokens
log_level: debug
public_url: http://me:SECRET-url@fleet.example.com
coder: {url: "http://127.0.0.1:1", token_file: `+secretFile+`}
local:
  pass_env: [CANARY_PASSED]
  projects:
    - {name: shell, env: {KEY: SECRET-env}}
    - name: cloned
      repository: http://me:SECRET-repository@127.0.0.1:1/x.git
      checks: ["curl -H 'X-Key: SECRET-check' 127.0.0.1:1"]
      roles: [{name: coder, prompt: SECRET-prompt}]
`, "SECRET", canary))
	log := &lockedBuffer{}
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "FLEET_OIDC_CLIENT_SECRET=" + canary + "-oidc"}
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"root": {Admin: true}, "alice": {}},
		Config: func(c *Config) {
			loaded, err := Load(file, environ, nil)
			require.NoError(t, err)
			c.Local, c.LogLevel, c.PublicURL, c.Places, c.Coder = loaded.Local, loaded.LogLevel, loaded.PublicURL, []string{"local"}, loaded.Coder
			if pgtest.Needed() {
				c.Store = pgtest.URL(t) + "&password=" + canary + "-postgres"
			}
		},
		Options: func(o *Options) { o.Places, o.Log = nil, log },
	})
	environ = append(environ, "FLEET_HTTP="+f.HTTPAddr(), "FLEET_GRPC="+f.GRPCAddr(), "FLEET_DATA="+f.cfg.Data, "FLEET_STORE="+f.cfg.Store)
	client, ctx := fleetv1.NewFleetServiceClient(f.conn), f.as(t.Context(), "alice")

	// An agent works, with a secret in everything that its owner says. Its program must not have the server's secrets.
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
	require.NotContains(t, output, canary+"-environ", "the environment of the server")
	require.Contains(t, output, canary+"-passed")
	for _, line := range commandLines(t) {
		require.Empty(t, canaries([]byte(line)), "a command line, which other users can read: %s", line)
	}
	_, err = client.SendTaskMessage(ctx, &fleetv1.SendTaskMessageRequest{AgentName: "papi", Message: canary + "-message"})
	require.NoError(t, err)
	_, err = client.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
	require.NoError(t, err)

	// Calls fail, and say why.
	var refusals []error
	refuse := func(err error) { require.Error(t, err); refusals = append(refusals, err) }
	_, err = client.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "broken", Project: "cloned", Spec: "s"})
	refuse(err)
	f.secrets["wrong"] = "fleet_" + canary + "-token"
	_, err = client.ListAgents(f.as(t.Context(), "wrong"), &fleetv1.ListAgentsRequest{})
	refuse(err)
	for _, header := range []string{"Authorization", "X-Api-Key", "Cookie", "Coder-Session-Token"} {
		for _, path := range []string{"/v1/agents?token=" + canary + "-query", "/mcp"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.HTTPAddr()+path, strings.NewReader(`{"key":"`+canary+`-body"`))
			require.NoError(t, err)
			r.Header.Set(header, "Bearer "+canary+"-header")
			r.Header.Set("Content-Type", "application/json")
			resp, err := f.http.Do(r)
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, errors.Join(err, resp.Body.Close()))
			require.GreaterOrEqual(t, resp.StatusCode, 400)
			require.NotContains(t, string(b), canary+"-header")
		}
	}
	for _, err := range refusals {
		require.Empty(t, canaries([]byte(fmt.Sprint(err))))
	}

	// What admins and operators get has none of it, not even what the owner may read.
	bundle := &bytes.Buffer{}
	p := &program{version: "test", environ: environ}
	require.NoError(t, p.writeBundle(t.Context(), bundle, file, f.secrets["root"]))
	content := unpack(t, bundle)
	for _, name := range []string{"version.txt", "configuration.yaml", "doctor.json", "health.json", "metrics.txt", "log.txt", "goroutines.txt"} {
		require.NotEmpty(t, content[name], "%s: %s", name, content["problems.txt"])
	}
	require.Contains(t, string(content["configuration.yaml"]), "name: cloned")
	require.Contains(t, string(content["log.txt"]), "StartAgentTask")
	content["the log"] = log.Bytes()
	for name, b := range content {
		require.Empty(t, canaries(b), name)
		for who, secret := range f.secrets {
			require.NotContains(t, string(b), secret, "the token of %s in %s", who, name)
		}
	}
	require.NoError(t, p.writeBundle(t.Context(), bundle, file, f.secrets["alice"]), "who is no admin gets less")
	content = unpack(t, bundle)
	require.Contains(t, string(content["problems.txt"]), "admin")
	require.NotContains(t, content, "log.txt")

	// Events have what the owner's agent puts out and what its owner says, and nothing of the configuration.
	events, err := client.WatchFleet(ctx, &fleetv1.WatchFleetRequest{})
	require.NoError(t, err)
	configured := regexp.MustCompile(canary + `-(env|passed|environ|repository|check|prompt|codertoken|postgres|token|header)\b`)
	for m, err := events.Recv(); err == nil; m, err = events.Recv() {
		for _, e := range m.GetEvents() {
			if e.GetType() != fleetv1.Event_task_output {
				require.Empty(t, configured.FindAllString(strings.ReplaceAll(e.String(), "test $KEY = "+canary+"-env", ""), -1), e.String())
			}
		}
	}
	require.NoError(t, f.stop())
	if f.cfg.Store == "" { // the file has the owner's texts, which are payload, but no secret of the configuration and no token
		for _, path := range []string{f.cfg.sqlitePath(), f.cfg.sqlitePath() + "-wal"} {
			b, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			require.NoError(t, err)
			for _, secret := range f.secrets {
				require.NotContains(t, string(b), secret)
			}
			require.Empty(t, regexp.MustCompile(canary+`-(environ|repository|check|prompt|codertoken|header|query|body)`).FindAllString(string(b), -1))
		}
	}
}

// unpack returns the files of a bundle, and empties the buffer.
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

// commandLines returns the command lines of all processes that this user can see.
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
	paths, err := filepath.Glob(filepath.Join(repository, "testdata", "cassettes", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotRegexp(t, `(?i)(coder-session-token|authorization|set-cookie):`, string(b), path)
	}
}

// TestRecent checks that the last lines of the log are kept, in their order.
func TestRecent(t *testing.T) {
	t.Parallel()
	r := &recent{next: io.Discard}
	for i := range recentLines + 3 {
		_, err := fmt.Fprintf(r, "line %d\n", i)
		require.NoError(t, err)
	}
	lines := strings.Split(strings.TrimSpace(string(r.text())), "\n")
	require.Len(t, lines, recentLines)
	require.Equal(t, []string{"line 3", fmt.Sprintf("line %d", recentLines+2)}, []string{lines[0], lines[recentLines-1]})
	_, err := r.Write(bytes.Repeat([]byte("x"), 1<<20))
	require.NoError(t, err)
	require.Less(t, len(r.text()), recentLines*20+recentLine+10, "a long line is cut")
}
