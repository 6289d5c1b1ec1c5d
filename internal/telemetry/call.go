package telemetry

import (
	"context"
	"slices"
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

// callMetrics measures calls. It looks up the metrics of a method by their labels only once and keeps them, because the
// lookup takes longer than counting.
type callMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	methods  *sync.Map // *[len(faces)]faceCalls by full method
}

// faceCalls has the metrics of a method on one face. Each is created when it is first needed, so that there are no series
// for calls that never happen.
type faceCalls struct {
	duration atomic.Pointer[prometheus.Observer]
	total    [codes.Unauthenticated + 1]atomic.Pointer[prometheus.Counter] // by code
}

func newCallMetrics() callMetrics {
	return callMetrics{total: calls.newCounterVec(), duration: callDuration.newHistogramVec(), methods: &sync.Map{}}
}

// CallEnded counts a call that has ended, measures its duration, and ends its span. It does not measure the duration of
// a stream, because the caller decides when a stream ends. A status that gRPC does not define counts as UNKNOWN.
func (t *Telemetry) CallEnded(ctx context.Context, method, face string, stream bool, status codes.Code, took time.Duration) {
	t.endCall(ctx, method, status)
	counters, ok := t.callMetrics.methods.Load(method)
	if !ok {
		counters, _ = t.callMetrics.methods.LoadOrStore(method, new([len(faces)]faceCalls))
	}
	i := faceIndex(face)
	c := &counters.(*[len(faces)]faceCalls)[i] //nolint:forcetypeassert // nothing else is stored
	if status > codes.Unauthenticated {
		status = codes.Unknown
	}
	n := c.total[status].Load()
	if n == nil {
		metric := t.callMetrics.total.WithLabelValues(methodLabel(method), faces[i], code.Code(status).String())
		n = &metric
		c.total[status].Store(n)
	}
	(*n).Inc()
	if stream {
		return
	}
	d := c.duration.Load()
	if d == nil {
		metric := t.callMetrics.duration.WithLabelValues(methodLabel(method), faces[i])
		d = &metric
		c.duration.Store(d)
	}
	(*d).Observe(took.Seconds())
}

// CallWaited records how long a call has waited while the server was working on its maximum number of calls.
func (t *Telemetry) CallWaited(d time.Duration) { t.callWait.Observe(d.Seconds()) }

// faceIndex returns the index of the face in faces; 0 if it is not in faces.
func faceIndex(face string) int { return max(0, slices.Index(faces[:], face)) }

// methodLabel returns the method as "FleetService/ListAgents".
func methodLabel(method string) string {
	return strings.TrimPrefix(strings.TrimPrefix(method, "/"), "fleet.v1.")
}
