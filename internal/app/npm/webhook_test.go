package npm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// webhookTarget is the make target that runs these tests.
const webhookTarget = "test-webhooks"

// serveWebhooks starts a server whose webhooks may call this machine.
func serveWebhooks(t *testing.T, h home) *server {
	t.Helper()
	file := h.path("fleet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("webhooks: {allow: [127.0.0.1]}\n"), 0o600))
	return serve(t, h, "--config", file, "--places", "fake")
}

// startNode runs a script with Node.js and kills it at the end of the test. It returns the standard output of the script.
func startNode(t *testing.T, dir string, env []string, argv ...string) (stdout io.Reader) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", argv...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	isolate(cmd)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	return stdout
}

// webhookReceiver is a client of the running receiver.mjs.
type webhookReceiver struct{ url string }

// configure makes the receiver verify requests with all of the secrets from now on, and be down, slow or lose answers at times.
func (r webhookReceiver) configure(t *testing.T, secrets ...string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"trouble": true, "secrets": secrets})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url, bytes.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_ = resp.Body.Close()
}

// receiverReport describes the requests that the receiver has got.
type receiverReport struct {
	Accepted                                      map[string]string // the cursor of each accepted event, by the id of its deliveries
	Requests, Down, Refused, Slow, Lost, Repeated int
	Invalid                                       []string
}

func (r webhookReceiver) report(t *testing.T) (report receiverReport) {
	t.Helper()
	resp, err := http.Get(r.url)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&report))
	return report
}

// TestWebhooks sends 1,000 events to a receiver that is sometimes down or slow, or loses answers. Between the events, it
// rotates the secret and kills the server. The library standardwebhooks must verify every signature, and all deliveries of
// an event must have the same id.
func TestWebhooks(t *testing.T) {
	skipUnlessSet(t, "TEST_WEBHOOKS", webhookTarget, "300 KB of npm packages")
	dir := install(t, "webhooks")
	port, err := bufio.NewReader(startNode(t, dir, nil, "receiver.mjs")).ReadString('\n')
	require.NoError(t, err)
	receiver := webhookReceiver{"http://127.0.0.1:" + strings.TrimSpace(port)}
	h := newHome(t)
	s := serveWebhooks(t, h)
	ctx := t.Context()
	created, err := s.api.CreateWebhook(ctx, &fleetv1.CreateWebhookRequest{Name: "ops", Url: receiver.url, Topics: []fleetv1.Webhook_Topic{fleetv1.Webhook_pool_changed}})
	require.NoError(t, err)
	const events = 1000
	n := 0
	updatePool := func(times int) {
		t.Helper()
		for range times {
			n++
			_, err := s.api.UpdatePool(ctx, &fleetv1.UpdatePoolRequest{Name: "web", MaxIdleSeconds: new(int32(100 + n))})
			require.NoError(t, err)
		}
	}
	waitForAccepted := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := s.api.Redeliver(ctx, &fleetv1.RedeliverRequest{Name: "ops", Since: timestamppb.New(time.Now().Add(-time.Hour))}) // instead of waiting for minutes
			require.NoError(t, err)
			return len(receiver.report(t).Accepted) == want
		}, defaultTimeout, 300*time.Millisecond, "%s of %d events have arrived", lazyString(func() string { return fmt.Sprint(len(receiver.report(t).Accepted)) }), want)
	}
	receiver.configure(t, created.GetSecret())
	_, err = s.api.CreatePool(ctx, &fleetv1.CreatePoolRequest{Name: "web", Project: fakeProject(t, s)})
	require.NoError(t, err)
	updatePool(events/2 - 1)
	waitForAccepted(events / 2)

	rotated, err := s.api.RotateWebhook(ctx, &fleetv1.RotateWebhookRequest{Name: "ops"})
	require.NoError(t, err)
	receiver.configure(t, created.GetSecret(), rotated.GetSecret())
	updatePool(events / 4)
	s.kill(t)
	s = serveWebhooks(t, h)
	updatePool(events / 4)
	waitForAccepted(events)

	r := receiver.report(t)
	require.Empty(t, r.Invalid)
	cursors := map[string]bool{}
	for id, cursor := range r.Accepted {
		require.False(t, cursors[cursor], "the event %s has two ids, one is %s", cursor, id)
		cursors[cursor] = true
	}
	for what, n := range map[string]int{"down": r.Down, "refused": r.Refused, "slow": r.Slow, "lost": r.Lost, "repeated": r.Repeated} {
		require.Positive(t, n, what)
	}
	t.Logf("%d events, %d requests: %d down, %d refused, %d slow, %d answers lost, %d repeated", len(cursors), r.Requests, r.Down, r.Refused, r.Slow, r.Lost, r.Repeated)
	logged := strings.Join(s.logLines(), "\n")
	require.NotContains(t, logged, created.GetSecret())
	require.NotContains(t, logged, rotated.GetSecret())
}

// fakeProject returns the name of a project of the place fake.
func fakeProject(t *testing.T, s *server) string {
	t.Helper()
	projects, err := s.api.ListAgentProjects(t.Context(), &fleetv1.ListAgentProjectsRequest{})
	require.NoError(t, err)
	return projects.GetProjects()[0].GetName()
}

// requestRecorder is a stub of Slack or of GitHub. It records the requests and responds with the status code.
type requestRecorder struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string // method, path, Authorization, Content-Type and body
	code  int
}

func newRequestRecorder(t *testing.T, code int) *requestRecorder {
	t.Helper()
	rec := &requestRecorder{code: code}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.calls = append(rec.calls, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body))
		w.WriteHeader(rec.code)
	}))
	t.Cleanup(rec.Close)
	return rec
}

// setCode changes the status code of later responses.
func (rec *requestRecorder) setCode(code int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.code = code
}

// receivedCalls returns the recorded requests, oldest first.
func (rec *requestRecorder) receivedCalls() []string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return append([]string(nil), rec.calls...)
}

// writeRecipes writes the scripts of docs/use/webhooks.md into the directory, and returns their paths by name.
func writeRecipes(t *testing.T, dir string) map[string]string {
	t.Helper()
	recipes := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```js\n// (\\w+)\\.mjs: .*?^```$").FindAllStringSubmatch(string(read(t, filepath.Join(root, "docs", "use", "webhooks.md"))), -1) {
		file := filepath.Join(dir, m[1]+".mjs")
		require.NoError(t, os.WriteFile(file, []byte(strings.TrimSuffix(strings.TrimPrefix(m[0], "```js\n"), "```")), 0o600))
		recipes[m[1]] = file
	}
	return recipes
}

// TestWebhookRecipes runs the recipes of docs/use/webhooks.md, with stubs of Slack and GitHub.
func TestWebhookRecipes(t *testing.T) {
	skipUnlessSet(t, "TEST_WEBHOOKS", webhookTarget, "300 KB of npm packages")
	dir := install(t, "webhooks")
	recipes := writeRecipes(t, dir)
	require.Len(t, recipes, 3)
	s := serveWebhooks(t, newHome(t))
	slack, github := newRequestRecorder(t, http.StatusOK), newRequestRecorder(t, http.StatusNoContent)
	runs := filepath.Join(t.TempDir(), "runs")
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ncat >>"+runs+"\necho >>"+runs+"\n"), 0o700)) //nolint:gosec // it must be executable
	_, err := s.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: "web", Project: fakeProject(t, s)})
	require.NoError(t, err)
	for name, env := range map[string][]string{
		"script": nil,
		"slack":  {"SLACK_URL=" + slack.URL + "/services/T/B/X"},
		"github": {"GITHUB_API_URL=" + github.URL, "GITHUB_TOKEN=ghp_stub", "GITHUB_REPOSITORY=me/shop"},
	} {
		address := freeAddress(t)
		created, err := s.api.CreateWebhook(t.Context(), &fleetv1.CreateWebhookRequest{Name: name, Url: "http://" + address, Topics: []fleetv1.Webhook_Topic{fleetv1.Webhook_task_created}})
		require.NoError(t, err)
		_, port, _ := net.SplitHostPort(address)
		startNode(t, dir, append(env, "PORT="+port, "WEBHOOK_SECRET="+created.GetSecret()), recipes[name], program)
		require.Eventually(t, func() bool {
			answer, err := s.api.TestWebhook(t.Context(), &fleetv1.TestWebhookRequest{Name: name})
			require.NoError(t, err)
			return answer.GetDelivery().GetStatus() == fleetv1.Delivery_delivered
		}, defaultTimeout, 100*time.Millisecond, name)

		forged, err := http.Post("http://"+address, "application/json", strings.NewReader(`{"type":"task_ended","data":{}}`))
		require.NoError(t, err)
		_ = forged.Body.Close()
		require.Equal(t, http.StatusUnauthorized, forged.StatusCode, name)
	}
	queued, err := s.api.QueueTask(t.Context(), &fleetv1.QueueTaskRequest{Pool: "web", TaskDescription: "classified", Hold: true})
	require.NoError(t, err)
	task := queued.GetTask().GetId()
	delivered := func(name string) (d *fleetv1.Delivery) {
		require.Eventually(t, func() bool {
			answer, err := s.api.ListDeliveries(t.Context(), &fleetv1.ListDeliveriesRequest{Name: name, Status: fleetv1.Delivery_delivered})
			require.NoError(t, err)
			for _, one := range answer.GetDeliveries() {
				if one.GetTaskId() == task {
					d = one
				}
			}
			return d != nil
		}, defaultTimeout, 50*time.Millisecond, name)
		return d
	}
	page := "http://" + s.http + "/tasks/" + task
	delivered("slack")
	require.Equal(t, `POST /services/T/B/X  application/json {"text":"<`+page+`|Fleet, task created, pending>"}`, slack.receivedCalls()[len(slack.receivedCalls())-1])
	event := delivered("github")
	require.Regexp(t, `^POST /repos/me/shop/dispatches Bearer ghp_stub .*\{"event_type":"fleet","client_payload":\{"type":"task_created","id":"`+event.GetDeliveryId()+`",.*"task_id":"`+task+`"`, github.receivedCalls()[len(github.receivedCalls())-1])

	// The script ignores a repeated delivery.
	event = delivered("script")
	_, err = s.api.Redeliver(t.Context(), &fleetv1.RedeliverRequest{Name: "script", DeliveryId: event.GetDeliveryId()})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(delivered("script").GetAttempts()) == 2 }, defaultTimeout, 50*time.Millisecond)
	require.Equal(t, "already done", delivered("script").GetAttempts()[1].GetResponse())
	require.Equal(t, 1, strings.Count(string(read(t, runs)), `"task_id":"`+task))
	require.NotContains(t, string(read(t, runs)), "classified")

	// A delivery fails if Slack refuses the message.
	slack.setCode(http.StatusInternalServerError)
	answer, err := s.api.TestWebhook(t.Context(), &fleetv1.TestWebhookRequest{Name: "slack"})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Delivery_failed, answer.GetDelivery().GetStatus())
	require.Equal(t, "Slack: 500", answer.GetDelivery().GetAttempts()[0].GetResponse())
}
