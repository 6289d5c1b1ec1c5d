package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"fleet/internal/fleet"
)

// Telemetry counts and measures what one server does.
type Telemetry struct {
	FlushTimeout time.Duration // limits how long Close waits for the export of the last spans; tests may change it before Close

	version            string
	registry           *prometheus.Registry
	callMetrics        callMetrics
	placeMetrics       placeMetrics
	storeMetrics       storeMetrics
	eventLag           prometheus.Histogram
	callWait           prometheus.Histogram
	startDelay         prometheus.Histogram
	scheduleTicks      *prometheus.CounterVec
	webhookAttempts    *prometheus.CounterVec
	webhookAttemptTime prometheus.Histogram
	metricsHandler     http.Handler

	provider *sdk.TracerProvider // nil if nothing is traced
	tracer   trace.Tracer        // nil if nothing is traced
}

// New returns the telemetry of a server with this version. Nothing is traced until EnableTracing is called.
func New(version string) *Telemetry {
	t := &Telemetry{
		FlushTimeout: flushTimeout, version: version, registry: prometheus.NewRegistry(),
		callMetrics: newCallMetrics(), placeMetrics: newPlaceMetrics(), storeMetrics: newStoreMetrics(),
	}
	t.eventLag, t.callWait, t.startDelay = eventLag.newHistogram(), callWait.newHistogram(), startDelay.newHistogram()
	t.webhookAttempts, t.webhookAttemptTime = webhookAttempts.newCounterVec(), webhookAttemptTime.newHistogram()
	t.scheduleTicks = scheduleTicks.newCounterVec()
	for _, outcome := range []string{fleet.TickQueued, fleet.TickSkipped, fleet.TickMissed, fleet.TickFailed} {
		t.scheduleTicks.WithLabelValues(outcome) // without this, increase() of Prometheus does not see the first tick
	}
	for _, outcome := range []fleet.DeliveryStatus{fleet.DeliveryDelivered, fleet.DeliveryWaiting, fleet.DeliveryFailed} {
		t.webhookAttempts.WithLabelValues(string(outcome)) // likewise
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo.Name, Help: buildInfo.Help}, buildInfo.Labels)
	info.WithLabelValues(version).Set(1)
	t.registry.MustRegister(
		t.callMetrics.total, t.callMetrics.duration, t.placeMetrics.duration, t.placeMetrics.errors,
		t.storeMetrics.duration, t.storeMetrics.retries, t.storeMetrics.errors, t.storeMetrics.fencedWrites, t.storeMetrics.events, t.storeMetrics.tasksEnded,
		t.eventLag, t.callWait, t.startDelay, t.scheduleTicks, t.webhookAttempts, t.webhookAttemptTime, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	t.metricsHandler = promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: scrapeTimeout, EnableOpenMetrics: true})
	return t
}

// scrapeTimeout limits how long a scrape may take.
const scrapeTimeout = 10 * time.Second

// ServeHTTP answers scrapes of Prometheus. It does not check credentials.
func (t *Telemetry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	t.metricsHandler.ServeHTTP(w, r)
}

// TaskStarted records that a task of the queue has started on an agent that it has waited for. delay is the time since the
// agent's last task ended, or since the agent changed in another way.
func (t *Telemetry) TaskStarted(delay time.Duration) { t.startDelay.Observe(delay.Seconds()) }

// ScheduleTicked records n ticks of schedules that had this outcome.
func (t *Telemetry) ScheduleTicked(outcome string, n int) {
	t.scheduleTicks.WithLabelValues(outcome).Add(float64(n))
}

// DeliveryAttempted records one attempt to send a delivery to a webhook, successful or not.
func (t *Telemetry) DeliveryAttempted(outcome fleet.DeliveryStatus, took time.Duration) {
	t.webhookAttempts.WithLabelValues(string(outcome)).Inc()
	t.webhookAttemptTime.Observe(took.Seconds())
}

// EventSent records that an event was sent to a waiting watcher. lag is the time since the event was recorded.
func (t *Telemetry) EventSent(lag time.Duration) { t.eventLag.Observe(lag.Seconds()) }
