package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is the type of a metric.
type Kind string

// The types of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric describes a metric of the server. docs/operate/monitoring.md explains each metric to operators.
type Metric struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string
}

// These are the metrics. The values of a label come from a small set. They never contain names of callers or agents.
var (
	calls        = counter("fleet_calls_total", "Calls that have ended.", "method", "face", "code")
	callDuration = histogram("fleet_call_duration_seconds", "Duration of calls, without streams.", "method", "face")
	callsOpen    = gauge("fleet_calls_open", "Calls that have not ended, including streams.")
	callsWaiting = gauge("fleet_calls_waiting", "Calls that wait in the queue because the maximum number of calls (limits.calls_per_cpu) is running.")
	unreadBytes  = gauge("fleet_answers_unread_bytes", "Bytes of answers that clients have not read; answers below 4 KiB are left out.")
	callWait     = histogram("fleet_call_wait_seconds", "Time in the queue of calls that had to wait.")

	agents             = gauge("fleet_agents", "Agents of the whole fleet by the state of their workspace.", "state")
	tasks              = gauge("fleet_tasks", "Tasks of the whole fleet that have not ended: queued means not handed to the agent yet.", "state")
	oldestUndispatched = gauge("fleet_task_queue_age_seconds", "Age of the oldest queued task; 0 if there is none.")

	queueTasks         = gauge("fleet_queue_tasks", "Pending tasks of the queue by the first reason why they wait.", "reason")
	oldestPending      = gauge("fleet_queue_oldest_seconds", "Age of the oldest pending task of the queue by the first reason why it waits.", "reason")
	fleetPaused        = gauge("fleet_paused", "1 if the whole fleet is paused, else 0.")
	budgetUSD          = gauge("fleet_budget_usd", "US dollars that a budget may spend in its window, and what tasks have reserved and spent of it.", "budget", "part")
	credentialUsed     = gauge("fleet_credential_used_ratio", "Used share of a usage window of a subscription, from 0 to 1.", "credential", "window")
	credentialHeld     = gauge("fleet_credential_held", "Whether no task of the queue starts with a credential, because the provider of its model refused it.", "credential")
	budgetTokens       = gauge("fleet_budget_tokens", "Tokens that a budget may spend in its window, and what tasks have reserved and spent of it.", "budget", "part")
	startDelay         = histogram("fleet_queue_start_delay_seconds", "Time from the end of an agent's task, or another change of the agent, until a task that waits for it starts.")
	scheduleTicks      = counter("fleet_schedule_ticks_total", "Ticks of schedules that this server has dealt with.", "outcome")
	webhookAttempts    = counter("fleet_webhook_attempts_total", "Attempts of this server to send deliveries to webhooks; waiting means that the attempt failed and is repeated.", "outcome")
	webhookAttemptTime = histogram("fleet_webhook_attempt_duration_seconds", "Duration of attempts to send deliveries to webhooks.")
	webhooks           = gauge("fleet_webhooks", "Webhooks: active, failing (all attempts since the last success have failed) or disabled.", "state")
	oldestDelivery     = gauge("fleet_webhook_oldest_waiting_seconds", "Age of the oldest delivery that waits, of webhooks that are not disabled; 0 if there is none.")

	events     = counter("fleet_events_total", "Events that this server has added to the log.", "type")
	tasksEnded = counter("fleet_tasks_ended_total", "Tasks that this server has recorded as ended.", "status")

	workers       = gauge("fleet_workers", "Workers of this server, one for each agent with work to do; waiting ones wait for a free slot.", "state")
	leases        = gauge("fleet_leases_held", "Leases that this server holds.")
	renewals      = counter("fleet_lease_renewals_total", "Renewals of leases by this server.")
	renewFailures = counter("fleet_lease_renewal_failures_total", "Attempts to renew leases that failed.")
	leasesLost    = counter("fleet_leases_lost_total", "Leases that this server has lost to another server, or could not renew in time.")
	fencedWrites  = counter("fleet_lease_fenced_writes_total", "Writes that the store refused because their lease had been lost.")

	placeDuration = histogram("fleet_place_operation_duration_seconds", "Duration of operations of places and of agents' runners, except follow.", "place", "operation")
	placeErrors   = counter("fleet_place_operation_errors_total", "Operations of places and of agents' runners that failed.", "place", "operation", "code")
	placeUp       = gauge("fleet_place_up", "1 if the last listing of the place's agents is complete and recent, else 0.", "place")
	snapshotAge   = gauge("fleet_place_snapshot_age_seconds", "Time since the place last listed all its workspaces, or since the server started.", "place")

	storeDuration = histogram("fleet_store_transaction_duration_seconds", "Duration of transactions, with their retries.", "kind")
	storeRetries  = counter("fleet_store_transaction_retries_total", "Transactions that were retried because of a conflict with another transaction.", "kind")
	storeErrors   = counter("fleet_store_transaction_errors_total", "Transactions that failed because of the store.", "kind")
	storeUp       = gauge("fleet_store_up", "1 if the store answers, else 0.")
	storeSize     = gauge("fleet_store_size_bytes", "Size of the database.")
	storeFull     = gauge("fleet_store_full", "1 if the disk is so full that the store accepts nothing new, else 0.")

	lastEvent = gauge("fleet_events_last_seq", "Number of the newest event of the log.")
	watchers  = gauge("fleet_watchers", "Open streams of this server that wait for events.")
	eventLag  = histogram("fleet_event_lag_seconds", "Time from the recording of an event until it is sent to a waiting watcher.")

	buildInfo = gauge("fleet_build_info", "1, with the version of the server.", "version")
)

// buckets are the upper bounds of the buckets of histograms, in seconds. There are only a few, because each bucket adds
// a series for each combination of labels.
var buckets = []float64{0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2, 10, 60}

// Metrics returns the metrics that Fleet defines. The server also exports metrics of the Go runtime and of its process.
// Their names begin with go_ and process_.
func Metrics() []Metric {
	return slices.Concat(collectedMetrics, []Metric{
		calls, callDuration, callWait, startDelay, scheduleTicks, webhookAttempts, webhookAttemptTime, events, tasksEnded,
		fencedWrites, placeDuration, placeErrors, storeDuration, storeRetries, storeErrors, eventLag, buildInfo,
	})
}

func counter(name, help string, labels ...string) Metric { return Metric{name, Counter, help, labels} }

func gauge(name, help string, labels ...string) Metric { return Metric{name, Gauge, help, labels} }

func histogram(name, help string, labels ...string) Metric {
	return Metric{name, Histogram, help, labels}
}

// desc returns the metric's description for Prometheus's library.
func (m Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

// newCounterVec returns a counter for each combination of the metric's labels.
func (m Metric) newCounterVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

// newHistogramVec returns a histogram for each combination of the metric's labels.
func (m Metric) newHistogramVec() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.Labels)
}

// newHistogram returns the histogram of a metric without labels.
func (m Metric) newHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets})
}
