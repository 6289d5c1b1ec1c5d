package telemetry

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
)

// faces are the values of the label face. Any other value counts as grpc.
var faces = [...]string{"grpc", "rest", "mcp"}

// callMetrics measures calls. It looks up a method's counters by its labels once and keeps them, since that takes longer
// than counting.
type callMetrics struct {
	ended    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	methods  *sync.Map // *[len(faces)]faceCalls by full method
}

// faceCalls are the counters of a method on one face. They are created when they are first needed, so that calls
// that never happen have no series.
type faceCalls struct {
	duration atomic.Pointer[prometheus.Observer]
	ended    [codes.Unauthenticated + 1]atomic.Pointer[prometheus.Counter] // by code
}

func newCallMetrics() callMetrics {
	return callMetrics{ended: calls.counters(), duration: callDuration.histograms(), methods: &sync.Map{}}
}

// CallEnded counts a call, and ends its span. The duration of a stream is not measured, since that is up to the caller.
func (t *Telemetry) CallEnded(ctx context.Context, method, face string, stream bool, how codes.Code, took time.Duration) {
	t.endCall(ctx, method, how)
	found, ok := t.calls.methods.Load(method)
	if !ok {
		found, _ = t.calls.methods.LoadOrStore(method, new([len(faces)]faceCalls))
	}
	i := faceIndex(face)
	c := &found.(*[len(faces)]faceCalls)[i] //nolint:forcetypeassert // nothing else is stored
	if how > codes.Unauthenticated {
		how = codes.Unknown
	}
	n := c.ended[how].Load()
	if n == nil {
		made := t.calls.ended.WithLabelValues(methodLabel(method), faces[i], code.Code(how).String())
		n = &made
		c.ended[how].Store(n)
	}
	(*n).Inc()
	if stream {
		return
	}
	d := c.duration.Load()
	if d == nil {
		made := t.calls.duration.WithLabelValues(methodLabel(method), faces[i])
		d = &made
		c.duration.Store(d)
	}
	(*d).Observe(took.Seconds())
}

// CallWaited records that a call has waited so long until fewer others were worked on.
func (t *Telemetry) CallWaited(d time.Duration) { t.callWait.Observe(d.Seconds()) }

func faceIndex(face string) int {
	for i, f := range faces {
		if f == face {
			return i
		}
	}
	return 0
}

// methodLabel returns the method as "FleetService/ListAgents".
func methodLabel(method string) string {
	return strings.TrimPrefix(strings.TrimPrefix(method, "/"), "fleet.v1.")
}
