package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// receiver is a sender that remembers what was sent to each URL.
type receiver struct {
	mu      sync.Mutex
	got     map[string][]fleet.Post // by URL
	answers map[string]fleet.PostResult
	block   map[string]chan struct{} // until it is closed, requests to the URL do not end
	arrived chan string              // the URL of each request
}

func newReceiver() *receiver {
	return &receiver{got: map[string][]fleet.Post{}, answers: map[string]fleet.PostResult{}, block: map[string]chan struct{}{}, arrived: make(chan string, 10_000)}
}

func (*receiver) Check(string) error { return nil }

func (r *receiver) Post(ctx context.Context, p fleet.Post) fleet.PostResult {
	r.mu.Lock()
	r.got[p.URL] = append(r.got[p.URL], p)
	answer, ok := r.answers[p.URL]
	block := r.block[p.URL]
	r.mu.Unlock()
	r.arrived <- p.URL
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
		}
	}
	if !ok {
		answer.Code = 200
	}
	return answer
}

func (r *receiver) answer(url string, a fleet.PostResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[url] = a
}

func (r *receiver) posts(url string) []fleet.Post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[url])
}

// types returns the types of what was sent to the URL, each id once.
func (r *receiver) types(t *testing.T, url string) (types []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range r.posts(url) {
		var body struct{ Type string }
		require.NoError(t, json.Unmarshal(p.Body, &body))
		if !seen[p.ID] {
			types = append(types, body.Type)
		}
		seen[p.ID] = true
	}
	return types
}

func newHooks(t *testing.T, with func(*state.Config)) (*servicetest.Harness, *receiver) {
	t.Helper()
	r := newReceiver()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Webhooks.Sender = r
		c.BaseURL = func() string { return "https://fleet.example.com" }
		if with != nil {
			with(c)
		}
	})
	return h, r
}

func createHook(t *testing.T, h *servicetest.Harness, ctx context.Context, name string, topics ...fleet.Topic) string { //nolint:revive // t comes first
	t.Helper()
	_, secret, err := h.CreateWebhook(ctx, service.CreateWebhookRequest{Name: name, URL: "https://example.com/" + name, Topics: topics})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(secret, "whsec_"), secret)
	return secret
}

func deliveries(t *testing.T, h *servicetest.Harness, ctx context.Context, name string) []*fleet.Delivery { //nolint:revive // t comes first
	t.Helper()
	limit := 1000
	all, _, err := h.ListDeliveries(ctx, service.ListDeliveriesRequest{Webhook: name, PageRequest: fleet.PageRequest{Limit: &limit}})
	require.NoError(t, err)
	return all
}

func delivered(t *testing.T, h *servicetest.Harness, ctx context.Context, name string, n int) bool { //nolint:revive // t comes first
	t.Helper()
	all := deliveries(t, h, ctx, name)
	return len(all) == n && !slices.ContainsFunc(all, func(d *fleet.Delivery) bool { return d.Status != fleet.DeliveryDelivered })
}

func TestAWebhookSendsWhatItsOwnerSees(t *testing.T) {
	t.Parallel()
	h, r := newHooks(t, nil)
	alice, bob, root := h.Context(), servicetest.As(t.Context(), "bob"), servicetest.AsAdmin(t.Context())
	createHook(t, h, alice, "alices", fleet.TopicAll)
	createHook(t, h, bob, "bobs", fleet.Topic(fleet.EventTaskCreated), fleet.Topic(fleet.EventTaskEnded), fleet.Topic(fleet.EventAgentUnshared))
	createHook(t, h, root, "roots", fleet.Topic(fleet.EventTaskEnded), fleet.Topic(fleet.EventFleetChanged))
	h.Create("papi")
	_, _, err := h.ShareAgent(alice, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}, Access: fleet.AccessView})
	require.NoError(t, err)
	h.WaitTask(h.Start("papi", "done").ID)
	h.WaitStored(func() bool { return len(r.types(t, "https://example.com/bobs")) == 2 })
	_, _, err = h.UnshareAgent(alice, service.ShareRequest{Agent: "papi", Grantee: fleet.Grantee{Person: "bob"}})
	require.NoError(t, err)
	last := h.Start("papi", "fail classified reason")
	h.WaitTask(last.ID)
	_, err = h.PauseFleet(root, "classified")
	require.NoError(t, err)

	h.WaitStored(func() bool {
		return len(r.types(t, "https://example.com/roots")) == 3 && slices.Contains(r.types(t, "https://example.com/alices"), "agent_unshared")
	})
	require.Equal(t, []string{"task_ended", "task_ended", "fleet_changed"}, r.types(t, "https://example.com/roots"))
	require.Equal(t, []string{"task_created", "task_ended"}, r.types(t, "https://example.com/bobs"))
	require.NotContains(t, r.types(t, "https://example.com/alices"), "fleet_changed")
	for _, p := range r.posts("https://example.com/alices") {
		require.NotContains(t, string(p.Body), "classified")
	}
	for _, p := range r.posts("https://example.com/roots") {
		if strings.Contains(string(p.Body), last.ID) {
			require.JSONEq(t, fmt.Sprintf(`{"webhook":"roots","cursor":%q,"agent_name":"papi","agent_id":%q,"task_id":%q,"owner":"alice","status":"failed","needs_me":true,
				"links":{"api":"https://fleet.example.com/v1/tasks/%[3]s","page":"https://fleet.example.com/tasks/%[3]s"}}`, cursorIn(t, p.Body), last.AgentUID, last.ID), dataIn(t, p.Body))
		}
	}
}

func cursorIn(t *testing.T, body []byte) string {
	t.Helper()
	var v struct{ Data struct{ Cursor string } }
	require.NoError(t, json.Unmarshal(body, &v))
	return v.Data.Cursor
}

func dataIn(t *testing.T, body []byte) string {
	t.Helper()
	var v struct{ Data json.RawMessage }
	require.NoError(t, json.Unmarshal(body, &v))
	return string(v.Data)
}
