package coder_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// fakeCoder simulates the parts of Coder and AgentAPI that one agent needs. It can produce faults that a real server does not
// produce on demand, and endless streams, which a cassette cannot replay.
type fakeCoder struct {
	*testing.T
	*require.Assertions
	server      *httptest.Server
	ws          codersdk.Workspace
	key         ed25519.PrivateKey
	now         func() time.Time // the clock of the places that newPlace returns
	clockOffset atomic.Int64     // how far these places are ahead of now, in nanoseconds

	// fault is called for each request. If it returns true, it has answered the request.
	fault func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	messages []map[string]any
	status   string   // of AgentAPI: stable or running
	raw      []string // raw input to the agent's terminal
	reports  []codersdk.WorkspaceAppStatus
	deleted  bool
	changed  chan struct{}  // closed and replaced by a new channel at every change
	requests map[string]int // by method and last part of the path, for example "POST message"
}

var (
	templateID = uuid.MustParse("10000000-0000-4000-8000-000000000000")
	fleetID    = uuid.MustParse("50000000-0000-4000-8000-000000000000")
	versionID  = uuid.MustParse("20000000-0000-4000-8000-000000000000")
)

func newFakeCoder(t *testing.T) *fakeCoder {
	x := &fakeCoder{T: t, Assertions: require.New(t), now: time.Now, status: "stable", changed: make(chan struct{}), requests: map[string]int{}}
	x.messages = []map[string]any{{"id": 0, "role": "agent", "content": "Ready.", "time": time.Now()}}
	build := codersdk.WorkspaceBuild{
		ID: uuid.New(), TemplateVersionID: versionID, Status: codersdk.WorkspaceStatusRunning, Transition: codersdk.WorkspaceTransitionStart,
		CreatedAt: time.Now().Add(-time.Minute),
		Resources: []codersdk.WorkspaceResource{{Agents: []codersdk.WorkspaceAgent{{
			ID: uuid.New(), Name: "main", Status: codersdk.WorkspaceAgentConnected, LifecycleState: codersdk.WorkspaceAgentLifecycleReady,
			Apps: []codersdk.WorkspaceApp{{Slug: "agentapi", Health: codersdk.WorkspaceAppHealthHealthy}},
		}}}},
	}
	x.ws = codersdk.Workspace{
		ID: uuid.New(), Name: "agent-papi", OwnerID: fleetID, OwnerName: "fleet", TemplateID: templateID, TemplateName: "setup", LatestBuild: build, CreatedAt: time.Now(),
	}
	x.server = httptest.NewServer(http.HandlerFunc(x.serve))
	t.Cleanup(x.server.Close)
	return x
}

// newFakePlace returns a fake Coder and a place that uses it.
func newFakePlace(t *testing.T) (*fakeCoder, *coder.Place) {
	x := newFakeCoder(t)
	return x, x.newPlace()
}

// newFrozenCoder returns a fake Coder whose places have a clock that stands still. Only clockOffset sets it forward.
func newFrozenCoder(t *testing.T) *fakeCoder {
	x := newFakeCoder(t)
	now := time.Now()
	x.now = func() time.Time { return now }
	return x
}

// open returns a place that uses the fake Coder. It fills in the missing parts of the configuration.
func (x *fakeCoder) open(c coder.Config) *coder.Place {
	c.URL, c.RunnerKey = x.server.URL, x.key
	if c.Token == nil {
		c.Token = func(context.Context) (string, error) { return "the-secret-token", nil }
	}
	p, err := coder.New(c)
	x.NoError(err)
	x.Cleanup(func() { x.NoError(p.Close()) })
	return p
}

// newPlace returns a place that uses the fake Coder and its clock. The place shortens each wait to a fiftieth.
func (x *fakeCoder) newPlace() *coder.Place {
	p := x.open(coder.Config{Now: func() time.Time { return x.now().Add(time.Duration(x.clockOffset.Load())) }})
	p.SetWait(func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d / 50):
			return nil
		}
	})
	return p
}

func (x *fakeCoder) agent() fleet.Agent {
	return fleet.Agent{UID: "uid", Name: "papi", Owner: "fleet", Project: "setup", Role: "coder", Spec: "A spec.", WorkspaceID: x.ws.ID.String()}
}

func (x *fakeCoder) newRun(prompt string) fleet.Run {
	return fleet.Run{TaskID: uuid.NewString(), Prompt: prompt, Timeout: time.Hour, StartedAt: time.Now()}
}

// update changes the fake Coder and notifies all watchers.
func (x *fakeCoder) update(do func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	do()
	close(x.changed)
	x.changed = make(chan struct{})
}

// setFault sets the fault of a fake Coder that is in use.
func (x *fakeCoder) setFault(f func(http.ResponseWriter, *http.Request) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fault = f
}

// showScreen shows the text on the agent's screen, and sets the status of the agent.
func (x *fakeCoder) showScreen(text, status string) {
	x.update(func() {
		if last := x.messages[len(x.messages)-1]; last["role"] == "user" {
			x.messages = append(x.messages, map[string]any{"id": len(x.messages), "role": "agent"})
		}
		last := x.messages[len(x.messages)-1]
		x.messages[len(x.messages)-1] = map[string]any{"id": last["id"], "role": "agent", "content": text, "time": time.Now()}
		x.status = status
	})
}

// prompts returns the prompts that the agent has received.
func (x *fakeCoder) prompts() (prompts []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.messages {
		if m["role"] == "user" {
			prompts = append(prompts, m["content"].(string))
		}
	}
	return prompts
}

// count returns how many requests the fake Coder has received, by method and last part of the path.
func (x *fakeCoder) count(request string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.requests[request]
}

func (x *fakeCoder) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	x.mu.Lock()
	x.requests[r.Method+" "+path[strings.LastIndex(path, "/")+1:]]++
	fault := x.fault
	x.mu.Unlock()
	if strings.HasPrefix(path, "/api/") {
		w.Header().Set("Content-Type", "application/json")
	}
	if fault != nil && fault(w, r) {
		return
	}
	x.mu.Lock()
	ws := x.ws
	if len(ws.LatestBuild.Resources) > 0 { // empty if the workspace is stopped
		ws.LatestBuild.Resources = []codersdk.WorkspaceResource{x.resource()}
	}
	deleted, status := x.deleted, x.status
	messages := append([]map[string]any{}, x.messages...)
	x.mu.Unlock()
	switch app := strings.TrimPrefix(path, "/@fleet/agent-papi.main/apps/agentapi/"); {
	case path == "/api/v2/users/me":
		writeJSON(w, codersdk.User{ReducedUser: codersdk.ReducedUser{MinimalUser: codersdk.MinimalUser{ID: fleetID, Username: "fleet"}}})
	case path == "/api/v2/templates":
		writeJSON(w, []codersdk.Template{{ID: templateID, Name: "setup", ActiveVersionID: versionID}})
	case strings.HasSuffix(path, "/rich-parameters"):
		writeJSON(w, []codersdk.TemplateVersionParameter{{Name: "system_prompt"}})
	case strings.HasSuffix(path, "/presets"):
		_, _ = io.WriteString(w, `[{"ID":"30000000-0000-4000-8000-000000000000","Name":null},{"ID":"40000000-0000-4000-8000-000000000000","Name":"Coder","Parameters":[{"Name":"system_prompt","Value":"Be good."}]}]`)
	case strings.HasPrefix(path, "/api/v2/workspaces/") && r.Method == http.MethodGet && deleted:
		writeError(w, http.StatusGone, "Workspace \""+ws.ID.String()+"\" was deleted, you can view this workspace by specifying '?deleted=true' and trying again.")
	case path == "/api/v2/workspaces/"+ws.ID.String():
		writeJSON(w, ws)
	case path == "/api/v2/workspaces/"+ws.ID.String()+"/builds":
		w.WriteHeader(http.StatusCreated)
		writeJSON(w, codersdk.WorkspaceBuild{ID: uuid.New()})
	case path == "/api/v2/workspaces":
		writeJSON(w, codersdk.WorkspacesResponse{Workspaces: []codersdk.Workspace{ws}, Count: 1})
	case app == "status":
		writeJSON(w, map[string]any{"status": status, "agent_type": "custom"})
	case app == "messages":
		writeJSON(w, map[string]any{"messages": messages})
	case app == "message":
		x.acceptMessage(w, r)
	case app == "events":
		x.streamConversation(w, r)
	default:
		writeError(w, http.StatusNotFound, "Resource not found or you do not have access to this resource")
	}
}

// resource returns a copy of the workspace's resource, with the latest reports of the agent.
func (x *fakeCoder) resource() codersdk.WorkspaceResource {
	r := x.ws.LatestBuild.Resources[0]
	r.Agents = slices.Clone(r.Agents)
	r.Agents[0].Apps = slices.Clone(r.Agents[0].Apps)
	r.Agents[0].Apps[0].Statuses = slices.Clone(x.reports)
	return r
}

// writeJSON answers with the value as JSON. It returns true, like a fault that has answered a request.
func writeJSON(w http.ResponseWriter, v any) bool {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
	return true
}

func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeJSON(w, codersdk.Response{Message: message})
}

// refuseMessage answers like AgentAPI when it refuses a message.
func refuseMessage(w http.ResponseWriter, words string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = fmt.Fprintf(w, `{"title":"Internal Server Error","status":500,"detail":"unexpected error occurred","errors":[{"message":%q}]}`, words)
}

// writePage answers with a web page, like a proxy.
func writePage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><html><body>the inside of a proxy</body></html>")
}

// acceptMessage accepts a message for the agent.
func (x *fakeCoder) acceptMessage(w http.ResponseWriter, r *http.Request) {
	var m struct{ Type, Content string }
	_ = json.NewDecoder(r.Body).Decode(&m)
	if m.Type == "raw" {
		x.update(func() { x.raw = append(x.raw, m.Content) })
		_, _ = io.WriteString(w, `{"ok":true}`)
		return
	}
	ok := false
	x.update(func() {
		if ok = x.status == "stable"; ok {
			x.messages = append(x.messages, map[string]any{"id": len(x.messages), "role": "user", "content": m.Content, "time": time.Now()})
			x.status = "running"
		}
	})
	if !ok {
		refuseMessage(w, "failed to send message: message can only be sent when the agent is waiting for user input")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// streamConversation sends the whole conversation at the start and after every change.
func (x *fakeCoder) streamConversation(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for id := 0; ; id++ {
		x.mu.Lock()
		changed := x.changed
		for _, m := range x.messages {
			b, _ := json.Marshal(map[string]any{"id": m["id"], "role": m["role"], "message": m["content"], "time": m["time"]})
			_, _ = fmt.Fprintf(w, "event: message_update\nid: %d\ndata: %s\n\n", id, b)
		}
		_, _ = fmt.Fprintf(w, "event: status_change\ndata: {\"status\":%q,\"agent_type\":\"custom\"}\n\n", x.status)
		x.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// requireReason requires that err has the reason.
func requireReason(t *testing.T, err error, want fleet.Reason, why ...string) {
	t.Helper()
	require.Equal(t, want, fleet.ReasonOf(err), "%v %s", err, why)
}

// requireError requires that err has the reason, and that its text contains the words.
func requireError(t *testing.T, err error, want fleet.Reason, words string) {
	t.Helper()
	requireReason(t, err, want)
	require.ErrorContains(t, err, words)
}
