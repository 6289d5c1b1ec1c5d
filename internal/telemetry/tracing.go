package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout is the default of Telemetry.FlushTimeout.
const flushTimeout = 3 * time.Second

// NewExporter returns the exporter that the standard OTEL_ variables of the environment configure, or nil if they
// configure none. They configure one if an endpoint is set or OTEL_TRACES_EXPORTER is otlp, unless OTEL_TRACES_EXPORTER is
// none or OTEL_SDK_DISABLED is true. NewExporter does not connect to the endpoint.
func NewExporter(ctx context.Context) (sdk.SpanExporter, error) {
	kind := os.Getenv("OTEL_TRACES_EXPORTER")
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), kind == "none", kind == "" && endpoint == "":
		return nil, nil //nolint:nilnil // nil exports nothing
	case kind != "" && kind != "otlp":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: it must be otlp or none", kind)
	}
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: it must be http/protobuf or grpc", protocol)
}

// EnableTracing turns on tracing. It exports spans with the exporter. Call it before the telemetry is used. replica is the name
// of the server among several; it may be empty. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override the attributes
// that describe the server. OTEL_TRACES_SAMPLER decides which spans are exported.
func (t *Telemetry) EnableTracing(ctx context.Context, e sdk.SpanExporter, replica string) error {
	attributes := []attribute.KeyValue{attribute.String("service.name", "fleet"), attribute.String("service.version", t.version)}
	if replica != "" {
		attributes = append(attributes, attribute.String("service.instance.id", replica))
	}
	r, err := resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES cannot be used: %w", err)
	}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(e), sdk.WithResource(r))
	t.tracer = t.provider.Tracer("fleet", trace.WithInstrumentationVersion(t.version))
	return nil
}

// Close exports the spans that have ended, and ends tracing. It gives up after FlushTimeout and returns an error.
func (t *Telemetry) Close() error {
	if t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.FlushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("the last traces were not exported: %w", err)
	}
	return nil
}

// LogErrors logs the errors that OpenTelemetry's library reports. The library has one error handler for the
// process, so the last call counts.
func LogErrors(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces not exported", slog.Any("error", err)) }))
}
