package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// newDelivery returns a waiting delivery of the event with the Seq. Every field has a value.
func newDelivery(webhook string, seq int64) *fleet.Delivery {
	return &fleet.Delivery{
		ID: fleet.DeliveryID(webhook, seq), WebhookUID: webhook, Seq: seq, Type: "task_ended", AgentName: "papi", TaskID: "t1", Body: []byte(`{"type":"ü\u0000"}`),
		Status: fleet.DeliveryWaiting, Tries: 1, NextAt: noon.Add(time.Duration(seq) * time.Minute), CreatedAt: noon.Add(time.Duration(seq) * time.Second),
		Attempts: []fleet.DeliveryAttempt{{At: noon, Took: time.Second, Code: 500, Response: "no ü"}},
	}
}

var deliveryCases = []testCase{
	{"a delivery is found, counted and written", func(t *testing.T, s fleet.Store) {
		all := []*fleet.Delivery{newDelivery("w1", 1), newDelivery("w1", 2), newDelivery("w1", 3), newDelivery("w2", 1)}
		all[1].NextAt = noon
		for _, d := range all {
			insertRows(t, s, d)
		}
		get := func(f fleet.DeliveryFilter) []*fleet.Delivery {
			f.Limit = max(f.Limit, 2)
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Delivery, error) { return tx.Deliveries(f) })
		}
		count := func(webhook string) []fleet.DeliveryCount {
			return read(t, s, func(tx fleet.ReadTx) ([]fleet.DeliveryCount, error) { return tx.CountDeliveries(webhook) })
		}
		require.Empty(t, get(fleet.DeliveryFilter{}))
		require.Equal(t, []*fleet.Delivery{all[2], all[1]}, get(fleet.DeliveryFilter{WebhookUID: "w1"}), "the newest deliveries come first")
		require.Equal(t, []*fleet.Delivery{all[0]}, get(fleet.DeliveryFilter{WebhookUID: "w1", Offset: 2}))
		require.Equal(t, []*fleet.Delivery{all[1], all[0]}, get(fleet.DeliveryFilter{WebhookUID: "w1", Waiting: true}), "the deliveries that are due first come first")
		require.Equal(t, []*fleet.Delivery{all[2]}, get(fleet.DeliveryFilter{WebhookUID: "w1", Since: all[2].CreatedAt}))
		require.Equal(t, []*fleet.Delivery{all[3]}, get(fleet.DeliveryFilter{ID: all[3].ID}))
		waiting := func(webhook string, n int) fleet.DeliveryCount {
			return fleet.DeliveryCount{WebhookUID: webhook, Status: fleet.DeliveryWaiting, Number: n, Oldest: all[0].CreatedAt}
		}
		require.Equal(t, []fleet.DeliveryCount{waiting("w1", 3), waiting("w2", 1)}, count(""))

		all[1].RecordAttempt(fleet.DeliveryAttempt{At: noon, Code: 204}, 0, 0)
		all[2].Status, all[2].NextAt = fleet.DeliveryFailed, time.Time{}
		updateRows(t, s, all[1], all[2])
		require.Equal(t, []*fleet.Delivery{all[1]}, get(fleet.DeliveryFilter{WebhookUID: "w1", Status: fleet.DeliveryDelivered}))
		require.Equal(t, []*fleet.Delivery{all[0]}, get(fleet.DeliveryFilter{WebhookUID: "w1", Waiting: true}))
		require.Equal(t, []fleet.DeliveryCount{{WebhookUID: "w1", Status: fleet.DeliveryFailed, Number: 1, Oldest: all[2].CreatedAt}, waiting("w1", 1)}, count("w1"))

		all[2].Requeue(noon.Add(time.Hour))
		updateRows(t, s, all[2])
		undue := fleet.DeliveryFilter{WebhookUID: "w1", Status: fleet.DeliveryWaiting, Undue: noon}
		require.Equal(t, []*fleet.Delivery{all[2], all[0]}, get(undue))
		undue.Undue = noon.Add(time.Hour)
		require.Equal(t, []*fleet.Delivery{all[0]}, get(undue))
	}},

	{"an event has one delivery to a webhook", func(t *testing.T, s fleet.Store) {
		insertRows(t, s, newDelivery("w1", 1))
		require.Error(t, tryInsert(t, s, newDelivery("w1", 1)))
		require.Error(t, tryUpdate(t, s, newDelivery("w1", 2)), "a delivery that does not exist cannot be updated")
	}},

	{"old deliveries are removed", func(t *testing.T, s fleet.Store) {
		for seq := range int64(5) {
			insertRows(t, s, newDelivery("w1", seq))
		}
		requirePruned(t, s, fleet.PruneDeliveries, noon.Add(3*time.Second), 2, 2, 1, 0)
		left := read(t, s, func(tx fleet.ReadTx) ([]*fleet.Delivery, error) {
			return tx.Deliveries(fleet.DeliveryFilter{WebhookUID: "w1", Limit: 10})
		})
		require.Equal(t, []*fleet.Delivery{newDelivery("w1", 4), newDelivery("w1", 3)}, left)
	}},
}
