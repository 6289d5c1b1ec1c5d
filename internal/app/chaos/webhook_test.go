package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres/pgtest"
)

// TestChaosWebhooks kills servers again and again while they send events to two receivers. One receiver refuses some requests,
// answers some late, and loses some answers, so that it gets events again. Each event of the log must reach both receivers,
// always with the same id, and nothing else may reach them. Every signature must be valid.
func TestChaosWebhooks(t *testing.T) {
	pgtest.SkipUnlessEnabled(t)
	count := 300
	if os.Getenv("CHAOS") != "" {
		count = 1000
	}
	onStores(t, "w", fleet.Limits{}, func(t *testing.T, f *fleetUnderLoad, store fleet.Store) { testWebhooks(t, f, store, count) })
}

func testWebhooks(t *testing.T, f *fleetUnderLoad, store fleet.Store, count int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	bad, good := newReceiver(t), newReceiver(t)
	for name, r := range map[string]*receiver{"bad": bad, "good": good} {
		created := mustCall(t, f.servers[0], fleetv1.FleetServiceClient.CreateWebhook, &fleetv1.CreateWebhookRequest{Name: name, Url: r.URL, Topics: []fleetv1.Webhook_Topic{fleetv1.Webhook_pool_changed}})
		r.setSecret(t, created.GetSecret())
	}
	mustCall(t, f.servers[0], fleetv1.FleetServiceClient.CreatePool, &fleetv1.CreatePoolRequest{Name: "web", Project: fake.DefaultProjects()[0].Name})

	bad.setUnreliable(true)
	var kills, calls sync.WaitGroup
	killed := 0
	killing, stopKills := context.WithCancel(ctx)
	kills.Go(func() {
		r := random(1, 1)
		for killing.Err() == nil {
			s := f.servers[r.IntN(len(f.servers))]
			killed++
			if err := s.killAndRestart(); err != nil {
				t.Error(err)
				return
			}
			pause(killing, time.Duration(300+r.IntN(1000))*time.Millisecond)
		}
	})
	began := time.Now()
	for client := range 4 {
		calls.Go(func() {
			r := random(2, uint64(client))
			for n := range count / 4 {
				request := &fleetv1.UpdatePoolRequest{Name: "web", MaxAgents: new(int32(1 + (n % 9))), MaxIdleSeconds: new(int32(100 + client)), RequestId: fmt.Sprintf("%d-%d", client, n)}
				for ctx.Err() == nil && f.call(r, "UpdatePool", request, &fleetv1.UpdatePoolResponse{}) != nil {
					pause(ctx, 20*time.Millisecond)
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	calls.Wait()
	bad.setUnreliable(false)
	pause(ctx, 2*time.Second) // kills continue while failed deliveries are repeated
	require.Eventually(t, func() bool { return f.redeliver(ctx) }, operationTimeout, 100*time.Millisecond)
	pause(ctx, 2*time.Second)
	stopKills()
	kills.Wait()

	var expected map[string]map[string]bool
	require.Eventually(t, func() bool {
		f.redeliver(ctx)
		expected = expectedDeliveries(t, store)
		return bad.hasAll(expected["bad"]) && good.hasAll(expected["good"])
	}, operationTimeout, 500*time.Millisecond)
	repeated, refused := map[string]int{}, 0
	for name, r := range map[string]*receiver{"bad": bad, "good": good} {
		r.mu.Lock()
		repeated[name], refused = r.repeated, refused+r.refused
		require.Empty(t, r.problems, name)
		for id := range r.accepted {
			require.Contains(t, expected[name], id, "%s: each delivery must be of an event", name)
		}
		r.mu.Unlock()
		require.GreaterOrEqual(t, len(expected[name]), count)
	}
	require.NotZero(t, repeated["bad"], "the test must repeat a delivery")
	require.NotZero(t, refused, "the test must refuse a delivery")
	t.Logf("%s: %d events reached both receivers in %s, with %d kills; the bad one got %d of them again and refused %d requests, the good one got %d again",
		f.name, len(expected["bad"]), time.Since(began).Round(time.Second), killed, repeated["bad"], refused, repeated["good"])
}

// redeliver asks a server to repeat the deliveries that the bad receiver has not accepted. It reports whether a server has done so.
func (f *fleetUnderLoad) redeliver(ctx context.Context) bool {
	callCtx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	for _, s := range f.servers {
		if overGRPC(callCtx, s, "Redeliver", &fleetv1.RedeliverRequest{Name: "bad", Since: timestamppb.New(time.Now().Add(-time.Hour))}, &fleetv1.RedeliverResponse{}) == nil {
			return true
		}
	}
	return false
}

// expectedDeliveries returns the ids of the deliveries of all events of pools after the webhooks were created, by webhook.
func expectedDeliveries(t *testing.T, store fleet.Store) map[string]map[string]bool {
	t.Helper()
	expected := map[string]map[string]bool{}
	require.NoError(t, store.View(t.Context(), func(tx fleet.ReadTx) error {
		webhooks, err := fleet.ReadResources[fleet.Webhook](tx, fleet.ResourceFilter{Kind: fleet.WebhookKind})
		if err != nil {
			return err
		}
		events, err := tx.Events(fleet.EventFilter{Types: []fleet.EventType{fleet.EventPoolChanged, fleet.EventWebhookChanged}}, fleet.EventWindow{Limit: 1_000_000})
		for _, w := range webhooks {
			ids, since := map[string]bool{}, false
			for _, e := range events {
				since = since || e.Type == fleet.EventWebhookChanged && e.Text == "the webhook "+w.Name+" was created by "+w.Owner
				if since && e.Type == fleet.EventPoolChanged {
					ids[fleet.DeliveryID(w.UID, e.Seq)] = true
				}
			}
			expected[w.Name] = ids
		}
		return err
	}))
	return expected
}

// receiver is an HTTP server that receives and records the deliveries of a webhook.
type receiver struct {
	*httptest.Server

	mu         sync.Mutex
	verifier   *standardwebhooks.Webhook
	unreliable bool
	accepted   map[string]bool // the ids of the deliveries that it has accepted
	problems   []string

	requests int // the requests while unreliable is set
	repeated int // the deliveries that it has accepted again
	refused  int // the requests that it has refused
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{accepted: map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) setSecret(t *testing.T, secret string) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifier = verifier
}

func (r *receiver) setUnreliable(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreliable = on
}

// hasAll reports whether the receiver has all these deliveries.
func (r *receiver) hasAll(ids map[string]bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range ids {
		if !r.accepted[id] {
			return false
		}
	}
	return true
}

// ServeHTTP accepts a delivery. While r is unreliable, it refuses some deliveries, answers others late, and loses the answers to
// some that it has accepted.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // the server was killed
	}
	r.mu.Lock()
	verifier := r.verifier
	kind := -1
	if r.unreliable {
		r.requests++
		kind = r.requests % 10
	}
	r.mu.Unlock()
	if verifier == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	switch kind {
	case 0:
		time.Sleep(100 * time.Millisecond)
	case 1, 2, 3:
		r.mu.Lock()
		r.refused++
		r.mu.Unlock()
		if kind == 1 {
			panic(http.ErrAbortHandler) // the connection is closed, as if the receiver were down
		}
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	id := q.Header.Get(standardwebhooks.HeaderWebhookID)
	r.mu.Lock()
	if err := verifier.Verify(body, q.Header); err != nil {
		r.problems = append(r.problems, id+": "+err.Error())
	}
	if r.accepted[id] {
		r.repeated++
	}
	r.accepted[id] = true
	r.mu.Unlock()
	if kind == 4 || kind == 5 {
		panic(http.ErrAbortHandler) // the answer is lost
	}
}
