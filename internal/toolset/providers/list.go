package providers

import (
	"context"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// ListEntry is a provider in a list.
type ListEntry struct {
	*Provider
	ProbeResult *ProbeResult // nil unless requested
}

// Capabilities returns all capabilities of the providers, sorted.
func (s *Service) Capabilities() (all []string) {
	for i := range s.table {
		all = append(all, s.table[i].Capabilities...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// List returns the providers with the capability, or all providers if capability is empty, sorted by name. If probe is
// true, it probes each of them. An unknown capability is not an error, because configurations can define their own.
func (s *Service) List(ctx context.Context, capability string, probe bool) ([]ListEntry, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	capability = strings.ToLower(strings.TrimSpace(capability))
	list := make([]ListEntry, 0, len(s.table))
	for i := range s.table {
		if p := &s.table[i]; capability == "" || slices.Contains(p.Capabilities, capability) {
			list = append(list, ListEntry{Provider: p})
		}
	}
	if !probe {
		return list, nil
	}
	var probing sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentProbes)
	for i := range list {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			probing.Wait()
			return nil, ctx.Err()
		}
		probing.Go(func() {
			defer func() { <-slots }()
			if result, err := s.sharedProbe(ctx, list[i].Provider); err == nil {
				list[i].ProbeResult = &result
			}
		})
	}
	probing.Wait()
	return list, ctx.Err()
}

// Probe probes the provider with the name. An unknown provider is reported as unavailable, without an error.
func (s *Service) Probe(ctx context.Context, name string) (ProbeResult, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return ProbeResult{}, err
	}
	if name == "" {
		return ProbeResult{}, fleet.InvalidField("agent_name", "agent_name is required: name an agent").Next("{list_available_agents} lists them")
	}
	p := s.find(name)
	if p == nil {
		return ProbeResult{Name: shorten(name), Status: StatusUnavailable, Detail: s.unknownAgentText(name)}, nil
	}
	return s.sharedProbe(ctx, p)
}

// unknownAgentText returns the text for a name that no provider has. The text lists the providers.
func (s *Service) unknownAgentText(name string) string {
	return "There is no agent \"" + shorten(name) + "\": there are " + strings.Join(s.names(anyProvider), ", ")
}
