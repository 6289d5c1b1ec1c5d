package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Health serves HealthService.
type Health struct {
	fleetv1.UnimplementedHealthServiceServer
	svc     *service.Service
	version string
	url     func() string
	auth    []string
}

// NewHealth returns the HealthService over the core. url returns the address of REST and the web page, or "" while they are
// not served. auth lists the kinds of credentials that the server accepts.
func NewHealth(svc *service.Service, version string, url func() string, auth []string) *Health {
	return &Health{svc: svc, version: version, url: url, auth: auth}
}

// ShowServer returns what a client must know before it makes other calls: the version, the address of REST, and the
// kinds of credentials.
func (h *Health) ShowServer(context.Context, *fleetv1.ShowServerRequest) (*fleetv1.ShowServerResponse, error) {
	return &fleetv1.ShowServerResponse{Version: h.version, Url: h.url(), Auth: h.auth}, nil
}

// CheckHealth reports whether the server is ready, and which of its parts are degraded and since when.
func (h *Health) CheckHealth(ctx context.Context, _ *fleetv1.CheckHealthRequest) (*fleetv1.CheckHealthResponse, error) {
	state := h.svc.Health(ctx)
	resp := &fleetv1.CheckHealthResponse{Status: fleetv1.CheckHealthResponse_not_ready}
	if state.Ready {
		resp.Status = fleetv1.CheckHealthResponse_ready
	}
	resp.Degraded = listOf(state.Degraded, func(d fleet.DegradedPart) *fleetv1.DegradedPart {
		return &fleetv1.DegradedPart{Part: d.Part, Since: timeOf(d.Since), Reason: textOf(d.Reason)}
	})
	return resp, nil
}

// StandardHealth serves the standard gRPC health service, for the whole server and for each of its services.
type StandardHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	svc        *service.Service
	hasService func(service string) bool
}

// watchInterval is the interval at which a watched status is checked.
const watchInterval = time.Second

// NewStandardHealth returns the standard gRPC health service over the core. hasService reports whether the server has the
// service with the full name, such as fleet.v1.FleetService.
func NewStandardHealth(svc *service.Service, hasService func(service string) bool) *StandardHealth {
	return &StandardHealth{svc: svc, hasService: hasService}
}

// status returns the status of the service with the name. The status of "", and of each service that exists, is that of the server.
func (h *StandardHealth) status(ctx context.Context, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case service != "" && !h.hasService(service):
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case h.svc.Health(ctx).Ready:
		return grpc_health_v1.HealthCheckResponse_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}

// Check returns the current status. It fails with NOT_FOUND for a service that does not exist.
func (h *StandardHealth) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s := h.status(ctx, r.GetService())
	if s == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "there is no service %q", r.GetService())
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}

// Watch sends the current status, and each change of it, until the call ends.
func (h *StandardHealth) Watch(r *grpc_health_v1.HealthCheckRequest, out grpc_health_v1.Health_WatchServer) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for last := grpc_health_v1.HealthCheckResponse_UNKNOWN; ; {
		if s := h.status(out.Context(), r.GetService()); s != last && out.Context().Err() == nil {
			if err := out.Send(&grpc_health_v1.HealthCheckResponse{Status: s}); err != nil {
				return err
			}
			last = s
		}
		select {
		case <-tick.C:
		case <-out.Context().Done():
			return status.FromContextError(out.Context().Err()).Err()
		}
	}
}
