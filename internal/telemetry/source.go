package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fleet/internal/fleet"
)

// Sources has the store and functions that return current figures of the server. Each scrape calls each function once,
// except Now.
type Sources struct {
	Store fleet.Store
	// Agents returns the existing agents with their running tasks, from memory.
	Agents   func() []*fleet.AgentView
	Queue    func(ctx context.Context) (fleet.QueueStats, error)
	Webhooks func(ctx context.Context) (fleet.WebhookStats, error)
	Places   func() []fleet.PlaceState
	Workers  func() fleet.WorkerStats

	Watchers     func() int   // number of open streams that wait for events
	CallsOpen    func() int   // number of calls that have not ended, with streams
	CallsWaiting func() int   // number of calls that wait for their turn
	UnreadBytes  func() int64 // bytes of answers that clients have not read
	Now          func() time.Time
}

// RegisterSources registers the metrics that are read from the sources at each scrape. It must be called only once.
func (t *Telemetry) RegisterSources(s Sources) { t.registry.MustRegister(collector{s, s.Now()}) }

// collector is a prometheus.Collector that reads the sources at each scrape.
type collector struct {
	Sources
	registeredAt time.Time
}

// storeTimeout limits how long a scrape waits for the store.
const storeTimeout = 3 * time.Second

// collectedMetrics lists the metrics that collector sends.
var collectedMetrics = []Metric{
	callsOpen, callsWaiting, unreadBytes, agents, tasks, oldestUndispatched, queueTasks, oldestPending, fleetPaused, budgetUSD, budgetTokens, credentialUsed, credentialHeld, webhooks, oldestDelivery, workers, leases, renewals, renewFailures, leasesLost,
	placeUp, snapshotAge, storeUp, storeSize, storeFull, lastEvent, watchers,
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range collectedMetrics {
		out <- m.desc()
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	send := func(m Metric, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if m.Kind == Counter {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(m.desc(), kind, v, labels...)
	}
	send(callsOpen, float64(c.CallsOpen()))
	send(callsWaiting, float64(c.CallsWaiting()))
	send(unreadBytes, float64(c.UnreadBytes()))
	send(watchers, float64(c.Watchers()))
	c.sendFleet(send)
	c.sendQueue(send)
	c.sendWebhooks(send)
	c.sendPlaces(send)
	w := c.Workers()
	send(workers, float64(w.Workers-w.Waiting), "running")
	send(workers, float64(w.Waiting), "waiting")
	send(leases, float64(w.Leases))
	send(renewals, float64(w.Renewals))
	send(renewFailures, float64(w.RenewFailures))
	send(leasesLost, float64(w.LeasesLost))
	c.sendStore(send)
}

type sendFunc func(m Metric, v float64, labels ...string)

// taskStates are the values of the label state of tasks.
var taskStates = []string{"queued", "running", "waiting", "stalled", "stopping"}

// taskState returns the value of the label state for a running task. The state is queued until the task is dispatched to its agent.
// Tasks that are pending in the queue are counted elsewhere.
func taskState(t *fleet.Task) string {
	switch {
	case !t.StopRequestedAt.IsZero():
		return "stopping"
	case t.DispatchedAt.IsZero():
		return "queued"
	case t.OpenQuestions > 0:
		return "waiting"
	case t.Stalled():
		return "stalled"
	}
	return "running"
}

// sendFleet sends the figures of agents and tasks.
func (c collector) sendFleet(send sendFunc) {
	agentsByState, tasksByState := map[fleet.State]int{}, map[string]int{}
	var oldest time.Duration
	for _, v := range c.Agents() {
		agentsByState[v.State]++
		if v.Task == nil {
			continue
		}
		state := taskState(v.Task)
		tasksByState[state]++
		if state == "queued" {
			oldest = max(oldest, c.Now().Sub(v.Task.CreatedAt))
		}
	}
	for _, s := range fleet.States {
		if s != fleet.StateDeleted {
			send(agents, float64(agentsByState[s]), string(s))
		}
	}
	for _, s := range taskStates {
		send(tasks, float64(tasksByState[s]), s)
	}
	send(oldestUndispatched, oldest.Seconds())
}

// sendWebhooks sends the figures of webhooks. It leaves them out if they cannot be read in time.
func (c collector) sendWebhooks(send sendFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	w, err := c.Webhooks(ctx)
	if err != nil {
		return
	}
	send(webhooks, float64(w.Active), "active")
	send(webhooks, float64(w.Failing), "failing")
	send(webhooks, float64(w.Disabled), "disabled")
	age := 0.0
	if !w.Oldest.IsZero() {
		age = max(0, c.Now().Sub(w.Oldest).Seconds())
	}
	send(oldestDelivery, age)
}

// sendQueue sends the figures of the queue. It leaves them out if they cannot be read in time.
func (c collector) sendQueue(send sendFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	q, err := c.Queue(ctx)
	if err != nil {
		return
	}
	for reason, n := range q.Tasks {
		send(queueTasks, float64(n), string(reason))
		send(oldestPending, max(0, c.Now().Sub(q.Oldest[reason]).Seconds()), string(reason))
	}
	send(fleetPaused, boolValue(q.Paused))
	for _, cred := range q.Credentials {
		send(credentialHeld, boolValue(cred.Held), cred.Name)
		for window, used := range cred.Used {
			send(credentialUsed, used, cred.Name, window)
		}
	}
	for _, b := range q.Budgets {
		for part, a := range map[string]fleet.Amount{"limit": b.Limit, "reserved": b.Reserved, "spent": b.Spent} {
			if b.Limit.Micros > 0 {
				send(budgetUSD, a.Micros.USD(), b.Name, part)
			}
			if b.Limit.Tokens > 0 {
				send(budgetTokens, float64(a.Tokens), b.Name, part)
			}
		}
	}
}

// sendPlaces sends the figures of places.
func (c collector) sendPlaces(send sendFunc) {
	for _, p := range c.Places() {
		send(placeUp, boolValue(p.Problem == "" || p.OnlyNameConflicts), p.Name)
		since := p.ObservedAt
		if since.IsZero() {
			since = c.registeredAt
		}
		send(snapshotAge, max(0, c.Now().Sub(since).Seconds()), p.Name)
	}
}

// sendStore sends the figures of the store. It leaves out those that the store does not return in time.
func (c collector) sendStore(send sendFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_, full := c.Store.Full()
	send(storeFull, boolValue(full))
	seq, err := c.Store.LastSeq(ctx)
	send(storeUp, boolValue(err == nil))
	if err != nil {
		return
	}
	send(lastEvent, float64(seq))
	if size, err := c.Store.Size(ctx); err == nil {
		send(storeSize, float64(size))
	}
}

// boolValue returns 1 for true and 0 for false.
func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
