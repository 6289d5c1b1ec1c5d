package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// defaultTimeout is the time limit for operations without a limit of their own.
const defaultTimeout = 2 * time.Minute

// testbed is the Coder deployment of the tests, used by a person with a session token.
type testbed struct {
	url   string
	token string
	user  string // owner of the token
	dir   string // directory of the test bed, which contains its workspaces
}

// newTestbed returns the deployment that the environment names, as the given user: admin, alice, bob, or the owner of
// CODER_SESSION_TOKEN if user is empty. It skips the test if FLEET_E2E is not set.
func newTestbed(t testing.TB, user string) *testbed {
	t.Helper()
	if os.Getenv("FLEET_E2E") == "" {
		t.Skip("this needs a real Coder: `make coder-up e2e` runs it")
	}
	b := &testbed{url: os.Getenv("CODER_URL"), token: os.Getenv("CODER_SESSION_TOKEN"), dir: os.Getenv("TESTBED_DIR")}
	if user != "" {
		b.token = os.Getenv("TESTBED_" + strings.ToUpper(user) + "_TOKEN")
	}
	require.NotEmpty(t, b.url, "CODER_URL is not set: testdata/coder-testbed/env.sh prints the environment")
	require.NotEmpty(t, b.token, "there is no session token: testdata/coder-testbed/env.sh prints the environment")
	require.NotEmpty(t, b.dir, "TESTBED_DIR is not set: testdata/coder-testbed/env.sh prints the environment")
	var me struct{ Username string }
	require.Equal(t, http.StatusOK, b.request(t, http.MethodGet, "/api/v2/users/me", nil, &me))
	b.user = me.Username
	return b
}

// newPrefix returns a new prefix for workspace names. At the end of the test, all workspaces with the prefix are
// deleted.
func (b *testbed) newPrefix(t testing.TB) string {
	t.Helper()
	var tag [2]byte
	_, _ = rand.Read(tag[:])
	prefix := "e2e" + hex.EncodeToString(tag[:]) + "-"
	t.Cleanup(func() { b.deleteWorkspaces(t, prefix) })
	return prefix
}

// workspace is the part of Coder's workspace that the tests use.
type workspace struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	LatestBuild struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Number int    `json:"build_number"`
	} `json:"latest_build"`
}

// deleteWorkspaces makes Coder delete the remaining workspaces of the person with the prefix. It does not wait until they are gone.
func (b *testbed) deleteWorkspaces(t testing.TB, prefix string) {
	for _, ws := range b.workspaces(t, "owner:"+b.user+" name:"+prefix) {
		if !strings.HasPrefix(ws.Name, prefix) {
			continue
		}
		b.cancelBuild(t, ws)
		b.eventually(t, "Coder begins to delete the workspace "+ws.Name, func() bool {
			status := b.tryRequest(t, http.MethodPost, "/api/v2/workspaces/"+ws.ID+"/builds", map[string]string{"transition": "delete"}, nil)
			return status == http.StatusCreated || status == http.StatusGone || status == http.StatusNotFound
		})
	}
}

// cancelBuild asks Coder to cancel the active build of the workspace, if there is one.
func (b *testbed) cancelBuild(t testing.TB, ws workspace) {
	if s := ws.LatestBuild.Status; s == "pending" || s == "starting" || s == "stopping" {
		b.tryRequest(t, http.MethodPatch, "/api/v2/workspacebuilds/"+ws.LatestBuild.ID+"/cancel", nil, nil)
	}
}

// workspaces returns the workspaces that match the query.
func (b *testbed) workspaces(t testing.TB, query string) []workspace {
	t.Helper()
	var all struct{ Workspaces []workspace }
	require.Equal(t, http.StatusOK, b.request(t, http.MethodGet, "/api/v2/workspaces?q="+url.QueryEscape(query), nil, &all))
	return all.Workspaces
}

// workspace returns the person's workspace with the name. It returns false if there is no such workspace.
func (b *testbed) workspace(t testing.TB, name string) (ws workspace, ok bool) {
	t.Helper()
	status := b.request(t, http.MethodGet, "/api/v2/users/"+b.user+"/workspace/"+name, nil, &ws)
	require.Contains(t, []int{http.StatusOK, http.StatusNotFound, http.StatusGone}, status)
	return ws, status == http.StatusOK
}

// requestBuild requests a build of the workspace with the id, as a person does by a click. The transition is start, stop or delete. It returns Coder's HTTP
// status: 409 means that another build is active.
func (b *testbed) requestBuild(t testing.TB, id, transition string) int {
	t.Helper()
	return b.request(t, http.MethodPost, "/api/v2/workspaces/"+id+"/builds", map[string]string{"transition": transition}, nil)
}

// parameters returns the parameters of the workspace's latest build.
func (b *testbed) parameters(t testing.TB, ws workspace) map[string]string {
	t.Helper()
	var list []struct{ Name, Value string }
	require.Equal(t, http.StatusOK, b.request(t, http.MethodGet, "/api/v2/workspacebuilds/"+ws.LatestBuild.ID+"/parameters", nil, &list))
	values := map[string]string{}
	for _, p := range list {
		values[p.Name] = p.Value
	}
	return values
}

// prompts asks AgentAPI for the messages that the agent in the named workspace has received. It returns false if AgentAPI
// does not answer.
func (b *testbed) prompts(t testing.TB, name string) (prompts []string, ok bool) {
	var all struct {
		Messages []struct{ Role, Content string }
	}
	answers := func(app string) bool {
		return b.tryRequest(t, http.MethodGet, "/@"+b.user+"/"+name+".main/apps/"+app+"/messages", nil, &all) == http.StatusOK
	}
	if !answers("agentapi") && !answers("ccw") {
		return nil, false
	}
	for _, m := range all.Messages {
		if m.Role == "user" {
			prompts = append(prompts, m.Content)
		}
	}
	return prompts, true
}

// timesPrompted returns how many prompts that contain the text the agent has received. It waits until AgentAPI answers.
func (b *testbed) timesPrompted(t testing.TB, name, text string) (n int) {
	t.Helper()
	var prompts []string
	b.eventually(t, "the agent of "+name+" answers", func() (ok bool) {
		prompts, ok = b.prompts(t, name)
		return ok
	})
	for _, s := range prompts {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// killProcess kills a process of the workspace. The process is "agent" or "agentapi".
func (b *testbed) killProcess(t testing.TB, name, process string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, "ws/by-name", b.user, name, process+".pid"))
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(data), &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// setMetadata sets a metadata item of the workspace.
func (b *testbed) setMetadata(t testing.TB, name, key, value string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../../testdata/coder-testbed/meta.sh", b.user+"/"+name, key, value).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// request sends a request to Coder and returns the HTTP status of the answer. It decodes a successful answer into the value that into points to.
func (b *testbed) request(t testing.TB, method, path string, body, into any) int {
	t.Helper()
	status := b.tryRequest(t, method, path, body, into)
	require.NotZero(t, status, "Coder does not answer %s %s", method, path)
	return status
}

// tryRequest is like request, but returns 0 instead of failing the test.
func (b *testbed) tryRequest(t testing.TB, method, path string, body, into any) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0
		}
		reader = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, b.url+path, reader)
	if err != nil {
		return 0
	}
	r.Header.Set("Coder-Session-Token", b.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0
	}
	if into != nil && res.StatusCode < 300 && json.Unmarshal(data, into) != nil {
		return 0
	}
	return res.StatusCode
}

// eventually polls until ok returns true, and fails the test after defaultTimeout. It is for changes that send no signal.
func (b *testbed) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, defaultTimeout, what, ok)
}

// within polls until ok returns true, and fails the test after the limit. It returns the elapsed time. It is for changes that
// send no signal.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		<-tick.C
		if time.Since(start) > limit {
			require.FailNow(t, "the condition did not become true in time", "%s, within %s", what, limit)
		}
	}
	return time.Since(start)
}
