package providers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"fleet/internal/fleet"
)

// probes holds the running probes, so that concurrent callers share one probe of a provider.
type probes struct {
	mu      sync.Mutex
	running map[string]*activeProbe // by provider
}

type activeProbe struct {
	done   chan struct{}
	result ProbeResult // valid once done is closed
}

// sharedProbe probes the provider, or waits for a running probe of it. It gives up the slot of the call first. A caller
// that waits for another caller's probe returns when ctx is done. A caller that has started a probe returns after the
// probe, even if ctx is done earlier, because others may wait for it.
func (s *Service) sharedProbe(ctx context.Context, p *Provider) (ProbeResult, error) {
	fleet.ReleaseSlot(ctx)
	s.probes.mu.Lock()
	r := s.probes.running[p.Name]
	if r != nil {
		s.probes.mu.Unlock()
		select {
		case <-r.done:
			return r.result, nil
		case <-ctx.Done():
			return ProbeResult{}, ctx.Err()
		}
	}
	r = &activeProbe{done: make(chan struct{}), result: ProbeResult{
		Name: p.Name, Status: StatusUnavailable, Detail: "The probe itself failed: the server's log has the cause",
	}}
	if s.probes.running == nil {
		s.probes.running = map[string]*activeProbe{}
	}
	s.probes.running[p.Name] = r
	s.probes.mu.Unlock()
	s.runProbe(context.WithoutCancel(ctx), p, r)
	return r.result, ctx.Err()
}

// runProbe probes the provider, stores the result in r, and wakes the callers that wait for the result.
func (s *Service) runProbe(ctx context.Context, p *Provider, r *activeProbe) {
	defer func() {
		if broken := recover(); broken != nil { // a panic in one probe affects only that probe
			s.log.ErrorContext(ctx, "probe panicked", slog.String("agent", p.Name), slog.String("panic", s.redact(fmt.Sprint(broken))))
		}
		s.probes.mu.Lock()
		delete(s.probes.running, p.Name)
		s.probes.mu.Unlock()
		close(r.done)
	}()
	r.result = s.probe(ctx, p)
}
