package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/telemetry"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// scrape returns the values of all series, keyed by name and labels: "name{label=value,...}". The value of a histogram
// is its count.
func scrape(t *testing.T, handler http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	got := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			got[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}

// sources returns sources over the store with fixed figures. Of the two agents, one has a task that has been queued for a
// minute, and the task of the other waits for an answer.
func sources(s fleet.Store) telemetry.Sources {
	agentOfQueuedTask := &fleet.AgentView{Agent: fleet.Agent{State: fleet.StateStarting}, Task: &fleet.Task{CreatedAt: noon.Add(-time.Minute)}}
	askingAgent := &fleet.AgentView{Agent: fleet.Agent{State: fleet.StateRunning}, Task: &fleet.Task{DispatchedAt: noon, OpenQuestions: 1}}
	return telemetry.Sources{
		Store: s, Agents: func() []*fleet.AgentView { return []*fleet.AgentView{agentOfQueuedTask, askingAgent} },
		Queue: func(context.Context) (fleet.QueueStats, error) {
			return fleet.QueueStats{Tasks: map[fleet.WaitReason]int{fleet.WaitAgentBusy: 2}, Oldest: map[fleet.WaitReason]time.Time{fleet.WaitAgentBusy: noon.Add(-time.Minute)}, Paused: true, Credentials: []fleet.CredentialStats{{Name: "max", Held: true, Used: map[string]float64{"five_hour": 0.5}}}, Budgets: []fleet.BudgetStats{{Name: "day", Limit: fleet.Amount{Micros: 2_000_000, Tokens: 100}, Reserved: fleet.Amount{Micros: 500_000}, Spent: fleet.Amount{Micros: 50_000, Tokens: 15}}}}, nil
		},
		Webhooks: func(context.Context) (fleet.WebhookStats, error) {
			return fleet.WebhookStats{Active: 3, Failing: 2, Disabled: 1, Oldest: noon.Add(-time.Hour)}, nil
		},
		Places: func() []fleet.PlaceState {
			return []fleet.PlaceState{{Name: "fake", ObservedAt: noon.Add(-3 * time.Second)}, {Name: "coder", Problem: "it does not answer"}, {Name: "second", ObservedAt: noon, Problem: "a name is taken", OnlyNameConflicts: true}}
		},
		Workers: func() fleet.WorkerStats {
			return fleet.WorkerStats{Workers: 5, Waiting: 2, Leases: 4, Renewals: 7, RenewFailures: 1, LeasesLost: 3}
		},
		Watchers: func() int { return 6 }, CallsOpen: func() int { return 8 }, CallsWaiting: func() int { return 0 }, UnreadBytes: func() int64 { return 9 },
		Now: func() time.Time { return noon },
	}
}

func openStore(t *testing.T) fleet.Store {
	t.Helper()
	s, err := sqlitetest.Open(t.Context(), t.TempDir()+"/fleet.db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestMetrics checks the values of the metrics, that Metrics lists exactly the exported metrics, and that no series names a
// principal.
func TestMetrics(t *testing.T) {
	t.Parallel()
	tel := telemetry.New("v1")
	store := tel.Store(openStore(t))
	tel.RegisterSources(sources(store))

	require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error {
		a := &fleet.Agent{UID: "u", Name: "papi", Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: noon, UpdatedAt: noon}
		require.NoError(t, tx.Insert(a))
		e := a.Event(fleet.EventTaskEnded, noon, "done")
		e.Status = string(fleet.TaskCompleted)
		return tx.Append(e)
	}))
	require.NoError(t, store.View(t.Context(), func(fleet.ReadTx) error { return nil }))
	lostLeaseCtx := fleet.WithLease(t.Context(), fleet.Lease{Key: "agent/u", Epoch: 99})
	require.ErrorIs(t, store.Update(lostLeaseCtx, func(fleet.Tx) error { return nil }), fleet.ErrLeaseLost)

	place := tel.Place(fake.New(fake.Config{}))
	_, err := place.List(t.Context())
	require.NoError(t, err)
	_, err = place.Roles(t.Context(), "no such project of alice")
	require.Error(t, err)

	for range 3 {
		tel.CallEnded(t.Context(), "/fleet.v1.FleetService/ListAgents", "rest", false, codes.OK, time.Millisecond)
	}
	tel.CallEnded(t.Context(), "/fleet.v1.FleetService/WatchFleet", "mallory", true, 99, time.Hour)
	tel.EventSent(time.Second)
	tel.TaskStarted(time.Millisecond)
	tel.ScheduleTicked(fleet.TickMissed, 3)
	tel.DeliveryAttempted(fleet.DeliveryWaiting, time.Second)

	got := scrape(t, tel)
	for series, want := range map[string]float64{
		"fleet_calls_total{code=OK,face=rest,method=FleetService/ListAgents}":      3,
		"fleet_call_duration_seconds{face=rest,method=FleetService/ListAgents}":    3,
		"fleet_calls_total{code=UNKNOWN,face=grpc,method=FleetService/WatchFleet}": 1,

		"fleet_calls_open":                                      8,
		"fleet_answers_unread_bytes":                            9,
		"fleet_agents{state=starting}":                          1,
		"fleet_agents{state=running}":                           1,
		"fleet_agents{state=failed}":                            0,
		"fleet_tasks{state=queued}":                             1,
		"fleet_tasks{state=waiting}":                            1,
		"fleet_tasks{state=running}":                            0,
		"fleet_task_queue_age_seconds":                          60,
		"fleet_queue_tasks{reason=agent_busy}":                  2,
		"fleet_queue_oldest_seconds{reason=agent_busy}":         60,
		"fleet_paused":                                          1,
		"fleet_queue_start_delay_seconds":                       1,
		"fleet_schedule_ticks_total{outcome=late}":              3,
		"fleet_webhook_attempts_total{outcome=waiting}":         1,
		"fleet_webhook_attempts_total{outcome=delivered}":       0,
		"fleet_webhook_attempt_duration_seconds":                1,
		"fleet_webhooks{state=failing}":                         2,
		"fleet_webhook_oldest_waiting_seconds":                  3600,
		"fleet_events_total{type=task_ended}":                   1,
		"fleet_tasks_ended_total{status=completed}":             1,
		"fleet_tasks_ended_total{status=failed}":                0,
		"fleet_workers{state=running}":                          3,
		"fleet_workers{state=waiting}":                          2,
		"fleet_leases_held":                                     4,
		"fleet_lease_renewals_total":                            7,
		"fleet_lease_renewal_failures_total":                    1,
		"fleet_leases_lost_total":                               3,
		"fleet_lease_fenced_writes_total":                       1,
		"fleet_place_up{place=fake}":                            1,
		"fleet_place_up{place=coder}":                           0,
		"fleet_place_up{place=second}":                          1,
		"fleet_place_snapshot_age_seconds{place=fake}":          3,
		"fleet_place_snapshot_age_seconds{place=coder}":         0,
		"fleet_store_transaction_duration_seconds{kind=update}": 2,
		"fleet_store_transaction_duration_seconds{kind=view}":   1,
		"fleet_store_transaction_retries_total{kind=update}":    0,
		"fleet_store_transaction_errors_total{kind=update}":     0,
		"fleet_store_up":                                        1,
		"fleet_store_full":                                      0,
		"fleet_events_last_seq":                                 1,
		"fleet_watchers":                                        6,
		"fleet_event_lag_seconds":                               1,
		"fleet_build_info{version=v1}":                          1,

		"fleet_place_operation_duration_seconds{operation=list,place=fake}":             1,
		"fleet_place_operation_errors_total{code=NOT_FOUND,operation=roles,place=fake}": 1,
	} {
		require.Contains(t, got, series)
		require.InDelta(t, want, got[series], 0, series)
	}
	require.Positive(t, got["fleet_store_size_bytes"])
	require.Positive(t, got["go_goroutines"])

	var names []string
	for series := range got {
		name, labels, _ := strings.Cut(series, "{")
		if !strings.HasPrefix(name, "fleet_") {
			continue
		}
		names = append(names, name)
		i := slices.IndexFunc(telemetry.Metrics(), func(m telemetry.Metric) bool { return m.Name == name })
		require.GreaterOrEqual(t, i, 0, "%s must be in Metrics", name)
		for _, label := range telemetry.Metrics()[i].Labels {
			require.Contains(t, labels, label+"=", series)
		}
		require.NotContains(t, series, "alice")
	}
	for _, m := range telemetry.Metrics() {
		require.Contains(t, names, m.Name, "%s must be exported", m.Name)
	}
}

// TestUntrustedCode checks that an error of a workspace cannot add values of the label code.
func TestUntrustedCode(t *testing.T) {
	t.Parallel()
	tel := telemetry.New("v1")
	place := tel.Place(fake.New(fake.Config{Before: func(context.Context, fake.Call) error {
		return &fleet.Error{Code: 4711, Reason: "MADE_UP", Message: "no"}
	}}))
	_, err := place.Inspect(t.Context(), fleet.Agent{})
	require.Error(t, err)
	require.InDelta(t, 1, scrape(t, tel)["fleet_place_operation_errors_total{code=INTERNAL,operation=inspect,place=fake}"], 0)
}

// TestStoreDown checks that the other metrics are exported while the store does not answer.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	tel := telemetry.New("v1")
	s := openStore(t)
	require.NoError(t, s.Close())
	store := tel.Store(s)
	tel.RegisterSources(sources(store))
	require.Error(t, store.View(t.Context(), func(fleet.ReadTx) error { return nil }))
	got := scrape(t, tel)
	require.Contains(t, got, "fleet_store_up")
	require.InDelta(t, 0, got["fleet_store_up"], 0)
	require.InDelta(t, 1, got["fleet_store_transaction_errors_total{kind=view}"], 0)
	require.InDelta(t, 6, got["fleet_watchers"], 0)
}
