package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// receiver is a fleet.WebhookSender that stands in for the receivers at all URLs. It records the requests to each.
type receiver struct {
	mu      sync.Mutex
	got     map[string][]fleet.WebhookRequest // by URL
	answers map[string]fleet.WebhookResponse
	block   map[string]chan struct{} // until it is closed, requests to the URL do not end
	arrived chan string              // the URL of each request
}

func newReceiver() *receiver {
	return &receiver{got: map[string][]fleet.WebhookRequest{}, answers: map[string]fleet.WebhookResponse{}, block: map[string]chan struct{}{}, arrived: make(chan string, 10_000)}
}

func (*receiver) Check(string) error { return nil }

func (r *receiver) Send(ctx context.Context, p fleet.WebhookRequest) fleet.WebhookResponse {
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

// await waits for the next request to the URL.
func (r *receiver) await(t *testing.T, url string) {
	t.Helper()
	for timeout := time.After(waittest.Limit); ; {
		select {
		case got := <-r.arrived:
			if got == url {
				return
			}
		case <-timeout:
			require.Fail(t, "no request to "+url)
		}
	}
}

func (r *receiver) answer(url string, a fleet.WebhookResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[url] = a
}

func (r *receiver) posts(url string) []fleet.WebhookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[url])
}

// types returns the types of the events that were sent to the URL, each id once.
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

// newWebhookHarness returns a fleet whose webhooks send to the returned receiver. with may change the configuration; it may be nil.
func newWebhookHarness(t *testing.T, with func(*state.Config)) (*servicetest.Harness, *receiver) {
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

// allDelivered reports whether the webhook has exactly n deliveries, all of them delivered.
func allDelivered(t *testing.T, h *servicetest.Harness, ctx context.Context, name string, n int) bool { //nolint:revive // t comes first
	t.Helper()
	all := deliveries(t, h, ctx, name)
	return len(all) == n && !slices.ContainsFunc(all, func(d *fleet.Delivery) bool { return d.Status != fleet.DeliveryDelivered })
}

func TestAWebhookSendsWhatItsOwnerSees(t *testing.T) {
	t.Parallel()
	h, r := newWebhookHarness(t, nil)
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
	found := false
	for _, p := range r.posts("https://example.com/roots") {
		if strings.Contains(string(p.Body), last.ID) {
			found = true
			require.JSONEq(t, fmt.Sprintf(`{"webhook":"roots","cursor":%q,"agent_name":"papi","agent_id":%q,"task_id":%q,"owner":"alice","status":"failed","needs_me":true,
				"links":{"api":"https://fleet.example.com/v1/tasks/%[3]s","page":"https://fleet.example.com/tasks/%[3]s"}}`, cursorIn(t, p.Body), last.AgentUID, last.ID), dataIn(t, p.Body))
		}
	}
	require.True(t, found, "the end of the last task must be sent")
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

// clock is a clock that a test advances.
type clock struct{ at atomic.Pointer[time.Time] }

func newClock() *clock {
	c := &clock{}
	c.at.Store(new(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)))
	return c
}

func (c *clock) Now() time.Time { return *c.at.Load() }

func (c *clock) Advance(d time.Duration) { c.at.Store(new(c.Now().Add(d))) }

func TestARetryKeepsItsID(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h, r := newWebhookHarness(t, func(c *state.Config) { c.Now = clock.Now })
	const url = "https://example.com/ops"
	r.answer(url, fleet.WebhookResponse{Code: 500, Body: "no"})
	oldSecret := createHook(t, h, h.Context(), "ops", fleet.Topic(fleet.EventTaskCreated))
	h.Create("papi")
	_, secret, err := h.RotateWebhook(h.Context(), "ops", time.Hour, "")
	require.NoError(t, err)
	h.WaitTask(h.Start("papi", "done").ID)
	attempted := func() bool {
		all := deliveries(t, h, h.Context(), "ops")
		return len(all) == 1 && len(all[0].Attempts) == 1
	}
	h.WaitStored(attempted)
	require.Equal(t, []string{secret, oldSecret}, r.posts(url)[0].Secrets, "the old secret must sign too until the overlap is over")
	webhooks, _, _, err := h.ListWebhooks(h.Context(), fleet.PageRequest{})
	require.NoError(t, err)
	require.Equal(t, 1, webhooks[0].Waiting)
	require.False(t, webhooks[0].FailingSince.IsZero())

	r.answer(url, fleet.WebhookResponse{Code: 200})
	clock.Advance(6 * time.Second)
	h.Start("papi", "done") // its event wakes the loop, whose clock stands still
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "ops", 2) })
	posts := r.posts(url)
	require.Len(t, posts, 3)
	require.Equal(t, posts[0].ID, posts[1].ID)
	require.Equal(t, posts[0].Body, posts[1].Body)
	webhooks, _, _, err = h.ListWebhooks(h.Context(), fleet.PageRequest{})
	require.NoError(t, err)
	require.True(t, webhooks[0].FailingSince.IsZero())

	n, more, err := h.Redeliver(h.Context(), service.RedeliverRequest{Webhook: "ops", ID: posts[0].ID})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, more)
	h.WaitStored(func() bool { return len(r.posts(url)) == 4 && allDelivered(t, h, h.Context(), "ops", 2) })
	require.Equal(t, posts[0].ID, r.posts(url)[3].ID)
}

func TestAWebhookThatFailsForThreeDaysIsDisabled(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h, r := newWebhookHarness(t, func(c *state.Config) { c.Now = clock.Now })
	r.answer("https://example.com/ops", fleet.WebhookResponse{Error: "connection refused"})
	createHook(t, h, h.Context(), "ops", fleet.Topic(fleet.EventTaskCreated))
	createHook(t, h, h.Context(), "watcher", fleet.TopicNeedsMe)
	h.Create("papi")
	h.WaitTask(h.Start("papi", "done").ID)
	hasAttempts := func(n int) func() bool {
		return func() bool {
			all := deliveries(t, h, h.Context(), "ops")
			return len(all) == 1 && len(all[0].Attempts) >= n
		}
	}
	h.WaitStored(hasAttempts(1))
	clock.Advance(73 * time.Hour)
	// The loop stands still with its clock until something wakes it. If an event has done so since, the webhook is disabled already.
	_, _, err := h.Redeliver(h.Context(), service.RedeliverRequest{Webhook: "ops", Since: clock.Now().Add(-1000 * time.Hour)})
	if fleet.ReasonOf(err) != fleet.ReasonWebhookDisabled {
		require.NoError(t, err)
	}
	h.WaitStored(func() bool { return len(r.posts("https://example.com/watcher")) == 1 })
	require.Contains(t, string(r.posts("https://example.com/watcher")[0].Body), `"type":"webhook_changed"`)
	require.Contains(t, string(r.posts("https://example.com/watcher")[0].Body), `"status":"disabled","needs_me":true`)
	webhooks, _, _, err := h.ListWebhooks(h.Context(), fleet.PageRequest{})
	require.NoError(t, err)
	require.Equal(t, "all attempts of three days have failed; the last one: connection refused", webhooks[0].DisabledReason)
	_, _, err = h.Redeliver(h.Context(), service.RedeliverRequest{Webhook: "ops", Since: clock.Now().Add(-1000 * time.Hour)})
	require.Equal(t, fleet.ReasonWebhookDisabled, fleet.ReasonOf(err))

	r.answer("https://example.com/ops", fleet.WebhookResponse{Code: 200})
	h.WaitTask(h.Start("papi", "done").ID) // its event happens while the webhook is disabled, so it is not sent later
	enabled := false
	_, err = h.UpdateWebhook(h.Context(), service.UpdateWebhookRequest{Name: "ops", Disabled: &enabled})
	require.NoError(t, err)
	_, _, err = h.Redeliver(h.Context(), service.RedeliverRequest{Webhook: "ops", Since: clock.Now().Add(-1000 * time.Hour)})
	require.NoError(t, err)
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "ops", 1) })
}

// TestAGoneDeliveryIsSentAgain sends the event again whose answer was 410 Gone, which disabled the webhook at once.
func TestAGoneDeliveryIsSentAgain(t *testing.T) {
	t.Parallel()
	h, r := newWebhookHarness(t, nil)
	r.answer("https://example.com/ops", fleet.WebhookResponse{Code: 410})
	createHook(t, h, h.Context(), "ops", fleet.Topic(fleet.EventTaskCreated))
	h.Create("papi")
	h.WaitTask(h.Start("papi", "done").ID)
	h.WaitStored(func() bool {
		webhooks, _, _, err := h.ListWebhooks(h.Context(), fleet.PageRequest{})
		require.NoError(t, err)
		return webhooks[0].DisabledReason == "its receiver answers 410 Gone"
	})
	r.answer("https://example.com/ops", fleet.WebhookResponse{Code: 200})
	enabled := false
	_, err := h.UpdateWebhook(h.Context(), service.UpdateWebhookRequest{Name: "ops", Disabled: &enabled})
	require.NoError(t, err)
	n, _, err := h.Redeliver(h.Context(), service.RedeliverRequest{Webhook: "ops", Since: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "ops", 1) })
}

func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	h, r := newWebhookHarness(t, nil)
	stuck := make(chan struct{})
	r.block["https://example.com/stuck"] = stuck
	createHook(t, h, h.Context(), "stuck", fleet.Topic(fleet.EventTaskCreated))
	createHook(t, h, h.Context(), "quick", fleet.Topic(fleet.EventTaskCreated))
	h.Create("papi")
	for range 5 {
		h.WaitTask(h.Start("papi", "done").ID)
	}
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "quick", 5) })
	r.await(t, "https://example.com/stuck")
	require.Len(t, r.posts("https://example.com/stuck"), 1)

	// A server that stops cannot know what the receiver has, so its successor repeats the attempt.
	h.Restart()
	r.await(t, "https://example.com/stuck")
	close(stuck)
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "stuck", 5) })
	posts := r.posts("https://example.com/stuck")
	require.Len(t, posts, 6)
	require.Equal(t, posts[0].ID, posts[1].ID)
	requireInOrder(t, posts[1:])
	require.Len(t, r.posts("https://example.com/quick"), 5, "successful deliveries must not be repeated")
}

// requireInOrder checks that the events arrived in their order.
func requireInOrder(t *testing.T, posts []fleet.WebhookRequest) {
	t.Helper()
	var cursors []string
	for _, p := range posts {
		cursors = append(cursors, cursorIn(t, p.Body))
	}
	require.True(t, slices.IsSortedFunc(cursors, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }), "the events must arrive in their order: %v", cursors)
}

func TestManyDeliveriesWaitInTheLog(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h, r := newWebhookHarness(t, func(c *state.Config) { c.Now, c.Webhooks.MaxWaiting = clock.Now, 2 })
	r.answer("https://example.com/ops", fleet.WebhookResponse{Code: 500})
	createHook(t, h, h.Context(), "ops", fleet.Topic(fleet.EventTaskCreated))
	h.Create("papi")
	for range 7 {
		h.WaitTask(h.Start("papi", "done").ID)
	}
	h.WaitStored(func() bool {
		all := deliveries(t, h, h.Context(), "ops")
		return len(all) == 2 && len(all[0].Attempts) > 0 && len(all[1].Attempts) > 0
	})
	r.answer("https://example.com/ops", fleet.WebhookResponse{Code: 200})
	_, _, err := h.Redeliver(h.Context(), service.RedeliverRequest{Webhook: "ops", Since: clock.Now().Add(-time.Hour)})
	require.NoError(t, err)
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "ops", 7) })
	posts := r.posts("https://example.com/ops")
	requireInOrder(t, posts[len(posts)-7:])
}

func TestAWebhookEndsWithTheTokenOfItsOwner(t *testing.T) {
	t.Parallel()
	h, r := newWebhookHarness(t, nil)
	root := servicetest.AsAdmin(t.Context())
	_, secret, _, err := h.CreateToken(root, service.CreateTokenRequest{Name: "carol", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	require.NoError(t, err)
	p, err := h.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	carol := fleet.WithPrincipal(t.Context(), p)
	createHook(t, h, carol, "ops", fleet.Topic(fleet.EventTaskCreated))
	h.Create("papi")
	h.WaitTask(h.Start("papi", "done").ID)
	h.WaitStored(func() bool { return allDelivered(t, h, carol, "ops", 1) })
	_, err = h.RevokeToken(root, "carol")
	require.NoError(t, err)
	createHook(t, h, h.Context(), "other", fleet.Topic(fleet.EventTaskCreated)) // the loop reads the webhooks again
	h.WaitTask(h.Start("papi", "done").ID)
	h.WaitStored(func() bool { return allDelivered(t, h, h.Context(), "other", 1) })
	require.Len(t, r.posts("https://example.com/ops"), 1)
	webhooks, _, _, err := h.ListWebhooks(carol, fleet.PageRequest{})
	require.NoError(t, err)
	require.Contains(t, webhooks[0].DisabledReason+webhooks[len(webhooks)-1].DisabledReason, "token")
}

func TestLimitOfWebhooks(t *testing.T) {
	t.Parallel()
	h, _ := newWebhookHarness(t, func(c *state.Config) { c.Webhooks.MaxPerOwner = 2 })
	createHook(t, h, h.Context(), "one", fleet.TopicAll)
	createHook(t, h, h.Context(), "two", fleet.TopicAll)
	_, _, err := h.CreateWebhook(h.Context(), service.CreateWebhookRequest{Name: "three", URL: "https://example.com", Topics: []fleet.Topic{fleet.TopicAll}})
	require.Equal(t, fleet.ReasonLimitReached, fleet.ReasonOf(err))
	createHook(t, h, servicetest.As(t.Context(), "bob"), "three", fleet.TopicAll)
}
