package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// Fill adds values of most kinds to an empty store.
func Fill(t *testing.T, s fleet.Store) {
	t.Helper()
	a, gone := newAgent("u1", "papi", "alice"), newAgent("u2", "Sony", "bob")
	gone.State, gone.DeletedAt, gone.Config, gone.Metadata = fleet.StateDeleted, noon, nil, nil
	task, ended := newTask("t1", a), fullTask("t0", a)
	task.Description = "Build \x00\xff " + string(make([]byte, 5000))
	session := newSession("s1", "alice", "key")
	update(t, s, func(tx fleet.Tx) error {
		for _, err := range []error{
			tx.Insert(a), tx.Insert(gone), tx.Insert(ended), tx.Insert(task),
			tx.Put("t0", fleet.Payload("pay\x00load")), tx.Put("t0", &fleet.Changes{Base: "b"}), tx.Put("t0", &fleet.TaskChecks{Try: 1}),
			tx.Put("t0", &fleet.Landing{State: fleet.LandingReview, Head: "h"}), tx.Insert(&fleet.Review{ID: "r1", TaskID: "t0", Text: "good"}),
			tx.Put("t0", fleet.Attachments{{Name: "a.bin", MediaType: "image/png", Content: []byte("\x00\xff")}}),
			tx.Insert(&fleet.Message{ID: "m1", TaskID: "t1", Text: "hello", CreatedAt: noon}),
			tx.Insert(newQuestion("t1-1", "t1", a)),
			tx.Insert(&fleet.Request{Principal: "alice", ID: "r1", Method: "M", CreatedAt: noon}),
			tx.Insert(newToken("alice", "h1")), tx.Insert(session),
			tx.Put("t1", &fleet.QueueEntry{Priority: 1, By: "alice"}), fleet.PutResource(tx, "pool", "web", testBody{"text"}),
			tx.Insert(reservation("day", "t1", noon, 500)), tx.Insert(settlement("day", "t1", noon, 500, 70)),
			tx.Insert(newDelivery("w1", 1)),
			tx.Put("u2", &fleet.Remains{KeptAt: noon, LostWork: "a file", Bundle: []byte("bundle")}),
		} {
			require.NoError(t, err)
		}
		return nil
	})
	for i := range 10 {
		e := newEvent(fleet.EventTaskOutput, a, id("line", i)+"\xff")
		e.TaskID = "t1"
		update(t, s, func(tx fleet.Tx) error { return tx.Append(e) })
	}
	_, err := s.Prune(t.Context(), fleet.PruneHistory, noon.Add(time.Hour), 3)
	require.NoError(t, err)
	putAudit(t, s, newAuditEntry("alice", "CreateAgent", "ok", noon))
	require.NoError(t, s.NoteDone(t.Context(), "poll/local", 50*time.Hour))
	_, err = s.EnsureSecret(t.Context(), "key", []byte("secret"))
	require.NoError(t, err)
}

// RequireSame compares a store that Fill has filled with its copy, and requires that they have the same values. It then writes
// to both stores, and requires that they number the next event alike.
func RequireSame(t *testing.T, one, two fleet.Store) {
	t.Helper()
	requireEqual(t, one, two, liveAgents)
	requireEqual(t, one, two, liveViews)
	requireEqual(t, one, two, tokens)
	requireEqual(t, one, two, fleet.ReadTx.LastSeq)
	requireEqual(t, one, two, func(tx fleet.ReadTx) (fleet.Holdings, error) {
		return tx.Holdings("alice", fleet.Limits{}, fleet.HoldingsScope{})
	})
	requireEqual(t, one, two, func(tx fleet.ReadTx) (fleet.ProjectHoldings, error) { return tx.ProjectHoldings("Setup") })
	require.Equal(t, listAudit(t, one, fleet.AuditFilter{}, 10), listAudit(t, two, fleet.AuditFilter{}, 10))
	requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Agent, error) { return tx.Agent("u2") })
	for _, uid := range []string{"u1", "u2"} {
		requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Task, error) { tasks, _, err := tx.Tasks(uid, 10, 0); return tasks, err })
		requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Remains, error) { return tx.RemainsWithBundle(uid) })
	}
	for _, id := range []string{"t0", "t1"} {
		requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Task, error) { return tx.Task(id) })
		requireEqual(t, one, two, func(tx fleet.ReadTx) ([]byte, error) { return tx.Payload(id) })
		requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Changes, error) { return tx.Changes(id) })
		requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.TaskChecks, error) { return tx.Checks(id) })
		requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Landing, error) {
			return tx.Landings(fleet.LandingFilter{TaskIDs: []string{id}})
		})
		requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Review, error) { return tx.Reviews(id) })
		requireEqual(t, one, two, func(tx fleet.ReadTx) ([]fleet.Attachment, error) { return tx.Attachments(id) })
		requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Message, error) { return tx.Messages(fleet.MessageFilter{TaskID: id}) })
	}
	requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Question, error) { return fleet.QuestionByID(tx, "t1-1") })
	requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.QueuedTask, error) { return tx.Queue(fleet.QueueFilter{All: true}) })
	requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Resource, error) {
		return tx.Resources(fleet.ResourceFilter{Kind: "pool"})
	})
	requireEqual(t, one, two, func(tx fleet.ReadTx) (fleet.Ledger, error) {
		return tx.Ledger(fleet.LedgerFilter{Windows: []fleet.LedgerKey{{Budget: "day", Begin: noon}}, Budget: "day", Limit: 10})
	})
	requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Request, error) { return tx.Request("alice", "r1") })
	requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Delivery, error) {
		return tx.Deliveries(fleet.DeliveryFilter{WebhookUID: "w1", Limit: 10})
	})
	requireEqual(t, one, two, func(tx fleet.ReadTx) (*fleet.Session, error) { return tx.Session(fleet.SessionKey{ID: "s1"}) })
	requireEqual(t, one, two, func(tx fleet.ReadTx) ([]fleet.Event, error) {
		return tx.Events(fleet.EventFilter{}, fleet.EventWindow{Limit: 100})
	})
	requireEqual(t, one, two, func(tx fleet.ReadTx) ([]*fleet.Task, error) {
		found, err := tx.FindTasks(fleet.TaskFilter{Text: "BUILD"}, fleet.TaskWindow{Limit: 10})
		return found.Tasks, err
	})
	requireEqual(t, one, two, func(tx fleet.ReadTx) ([]fleet.UsageRow, error) {
		rows, _, err := tx.Usage(fleet.TaskFilter{}, fleet.UsageByDay, 10)
		return rows, err
	})
	for _, s := range []fleet.Store{one, two} {
		ago, ok, err := s.LastDone(t.Context(), "poll/local")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, 50*time.Hour, ago.Truncate(time.Hour))
		secret, err := s.EnsureSecret(t.Context(), "key", []byte("another"))
		require.NoError(t, err)
		require.Equal(t, "secret", string(secret))
		insertRows(t, s, newAgent("u3", "later", "carol"), reservation("day", "t2", noon, 1))
	}
	require.Equal(t, appendEvent(t, one), appendEvent(t, two), "both logs must continue with the same number")
}

// requireEqual requires that get returns the same value for both stores.
func requireEqual[T any](t *testing.T, one, two fleet.Store, get func(fleet.ReadTx) (T, error)) {
	t.Helper()
	require.Equal(t, read(t, one, get), read(t, two, get))
}
