package providers

import (
	"context"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// Listed is a provider as a list shows it.
type Listed struct {
	*Provider
	Finding *Finding // nil when it was not asked for
}

// Capabilities returns the capabilities that some provider has, sorted.
func (s *Service) Capabilities() (all []string) {
	for i := range s.table {
		all = append(all, s.table[i].Capabilities...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// List returns the providers that have the capability, or all of them, by name, with what a probe of each found when
// that is asked for. A capability that none has is no error: which there are is for configurations to say.
func (s *Service) List(ctx context.Context, capability string, status bool) ([]Listed, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	capability = strings.ToLower(strings.TrimSpace(capability))
	list := make([]Listed, 0, len(s.table))
	for i := range s.table {
		if p := &s.table[i]; capability == "" || slices.Contains(p.Capabilities, capability) {
			list = append(list, Listed{Provider: p})
		}
	}
	if !status {
		return list, nil
	}
	var looking sync.WaitGroup
	lines := make(chan struct{}, probesAtOnce)
	for i := range list {
		select {
		case lines <- struct{}{}:
		case <-ctx.Done():
			looking.Wait()
			return nil, ctx.Err()
		}
		looking.Go(func() {
			defer func() { <-lines }()
			if f, err := s.look(ctx, list[i].Provider); err == nil {
				list[i].Finding = &f
			}
		})
	}
	looking.Wait()
	return list, ctx.Err()
}

// Probe looks at the provider of the name. One that there is not is unavailable, and no error.
func (s *Service) Probe(ctx context.Context, name string) (Finding, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return Finding{}, err
	}
	if name == "" {
		return Finding{}, fleet.Invalid(fleet.ReasonInvalidArgument, "agent_name", "agent_name is required: name an agent, see list_available_agents")
	}
	p := s.find(name)
	if p == nil {
		return Finding{Name: show(name), Status: StatusUnavailable, Detail: s.unknown(name)}, nil
	}
	return s.look(ctx, p)
}

// unknown says that there is no provider of the name.
func (s *Service) unknown(name string) string {
	return "There is no agent \"" + show(name) + "\": there are " + strings.Join(s.names(every), ", ")
}
