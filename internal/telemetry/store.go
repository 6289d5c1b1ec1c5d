package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"fleet/internal/fleet"
)

type storeMetrics struct {
	duration                         *prometheus.HistogramVec
	retries, errors                  *prometheus.CounterVec
	fencedWrites, events, tasksEnded *prometheus.CounterVec
}

func newStoreMetrics() storeMetrics {
	m := storeMetrics{
		duration: storeDuration.newHistogramVec(), retries: storeRetries.newCounterVec(), errors: storeErrors.newCounterVec(),
		fencedWrites: fencedWrites.newCounterVec(), events: events.newCounterVec(), tasksEnded: tasksEnded.newCounterVec(),
	}
	m.fencedWrites.WithLabelValues() // creates the series, so that it is exported as 0 before the first fenced write
	for _, kind := range []string{"update", "view"} {
		m.retries.WithLabelValues(kind)
		m.errors.WithLabelValues(kind)
	}
	for _, s := range []fleet.TaskStatus{fleet.TaskCompleted, fleet.TaskFailed, fleet.TaskStopped} {
		m.tasksEnded.WithLabelValues(string(s))
	}
	return m
}

// Store returns a store that does what s does, measures its transactions, and counts the events that they append and the
// writes that the store refused because of a lost lease.
func (t *Telemetry) Store(s fleet.Store) fleet.Store {
	return &store{
		Store: s, telemetry: t, metrics: &t.storeMetrics,
		updateMetrics: transactionMetrics{t.storeMetrics.duration.WithLabelValues("update"), t.storeMetrics.retries.WithLabelValues("update"), t.storeMetrics.errors.WithLabelValues("update")},
		viewMetrics:   transactionMetrics{t.storeMetrics.duration.WithLabelValues("view"), t.storeMetrics.retries.WithLabelValues("view"), t.storeMetrics.errors.WithLabelValues("view")},
	}
}

// store measures a store. It does not measure LastSeq, because each read of the snapshot calls it.
type store struct {
	fleet.Store
	telemetry                  *Telemetry
	metrics                    *storeMetrics
	updateMetrics, viewMetrics transactionMetrics
}

// transactionMetrics has the metrics of one kind of transaction.
type transactionMetrics struct {
	duration prometheus.Observer
	retries  prometheus.Counter
	errors   prometheus.Counter
}

// record records a transaction. attempts is how many times its function was called: after a conflict, it is called again.
func (m transactionMetrics) record(start time.Time, attempts int, err error) {
	m.duration.Observe(time.Since(start).Seconds())
	if attempts > 1 {
		m.retries.Add(float64(attempts - 1))
	}
	if isStoreFailure(err) {
		m.errors.Inc()
	}
}

// isStoreFailure reports whether the error means that the store does not work or is full. A violation of Fleet's rules, a
// lost lease and a cancelled call do not mean that.
func isStoreFailure(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, fleet.ErrLeaseLost) {
		return false
	}
	_, isRule := errors.AsType[*fleet.Error](err)
	return !isRule || errors.Is(err, fleet.ErrStoreFull)
}

func (s *store) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	start, attempts := time.Now(), 0
	ctx, span := s.telemetry.startChild(ctx, "store.update", trace.SpanKindClient)
	var t tx
	err := s.Store.Update(ctx, func(inner fleet.Tx) error {
		attempts++
		t = tx{Tx: inner, appended: t.appended[:0]}
		return fn(&t)
	})
	s.updateMetrics.record(start, attempts, err)
	endSpan(span, err)
	if errors.Is(err, fleet.ErrLeaseLost) {
		s.metrics.fencedWrites.WithLabelValues().Inc()
	}
	if err != nil {
		return err
	}
	for _, e := range t.appended {
		s.metrics.events.WithLabelValues(string(e.typ)).Inc()
		if e.typ == fleet.EventTaskEnded {
			s.metrics.tasksEnded.WithLabelValues(e.status).Inc()
		}
	}
	return nil
}

func (s *store) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	start, attempts := time.Now(), 0
	ctx, span := s.telemetry.startChild(ctx, "store.view", trace.SpanKindClient)
	err := s.Store.View(ctx, func(tx fleet.ReadTx) error {
		attempts++
		return fn(tx)
	})
	s.viewMetrics.record(start, attempts, err)
	endSpan(span, err)
	return err
}

// tx records the events that a transaction appends to the log.
type tx struct {
	fleet.Tx
	appended []appendedEvent
}

type appendedEvent struct {
	typ    fleet.EventType
	status string
}

func (t *tx) Append(e *fleet.Event) error {
	err := t.Tx.Append(e)
	if err == nil {
		t.appended = append(t.appended, appendedEvent{e.Type, e.Status})
	}
	return err
}
