package fleet

import (
	"context"
	"maps"
	"slices"
	"time"
)

// hostsOf returns every backend by name; the fleet's own is among them.
func hostsOf(backend Place, others map[string]Place) map[string]Place {
	hosts := maps.Clone(others)
	if hosts == nil {
		hosts = map[string]Place{}
	}
	hosts[backend.Traits().Name] = backend
	return hosts
}

// host returns the backend that hosts the agent. An agent of a backend that is not configured any more gets one that
// does not answer, so that nothing of it is lost until it is.
func (s *Service) host(a *Agent) Place {
	if a.Backend == "" {
		return s.backend
	}
	if b := s.hosts[a.Backend]; b != nil {
		return b
	}
	return absent{name: a.Backend}
}

// ours says whether the agent is hosted by the backend of the fleet.
func (s *Service) ours(a *Agent) bool { return a.Backend == "" || a.Backend == s.traits.Name }

// canHost says whether this process has the agent's backend. An agent of another one waits for a process that has it.
func (s *Service) canHost(a *Agent) bool { return s.ours(a) || s.hosts[a.Backend] != nil }

// grace is how long a run of the agent gets to end by itself after it was interrupted.
func (s *Service) grace(a *Agent) time.Duration {
	if d := s.host(a).Traits().StopGrace; d > 0 && !s.ours(a) {
		return d
	}
	return s.cfg.StopGrace
}

// Hosts returns the names of the backends there are, sorted.
func (s *Service) Hosts() []string { return slices.Sorted(maps.Keys(s.hosts)) }

// TraitsOf returns the facts about the backend of the name, "" for the one of the fleet; ok is false when there is none.
func (s *Service) TraitsOf(host string) (t Traits, ok bool) {
	if host == "" {
		return s.traits, true
	}
	b, ok := s.hosts[host]
	if !ok {
		return Traits{}, false
	}
	return b.Traits(), true
}

// absent is a backend that is named in the store and not configured.
type absent struct{ name string }

func (b absent) err() error {
	return Errorf(ReasonBackendUnavailable, "the backend %q is not configured: start the server with it again", b.name)
}

func (b absent) Traits() Traits                              { return Traits{Name: b.name} }
func (b absent) Projects(context.Context) ([]Project, error) { return nil, b.err() }
func (b absent) Roles(context.Context, string) ([]Role, error) {
	return nil, b.err()
}

func (b absent) Provision(context.Context, Agent) (Workspace, error) {
	return Workspace{}, b.err()
}
func (b absent) Start(context.Context, Agent) error            { return b.err() }
func (b absent) Stop(context.Context, Agent) error             { return b.err() }
func (b absent) Delete(context.Context, Agent) (string, error) { return "", b.err() }
func (b absent) Inspect(context.Context, Agent) (Workspace, error) {
	return Workspace{}, b.err()
}
func (b absent) List(context.Context) ([]Workspace, error)               { return nil, b.err() }
func (b absent) Connect(Agent) Runner                                    { return absentRunner{b} }
func (b absent) Log(context.Context, Agent, int) ([]string, bool, error) { return nil, false, b.err() }
func (b absent) Close() error                                            { return nil }

// absentRunner is the runner of an agent whose place is absent.
type absentRunner struct{ place absent }

func (r absentRunner) Dispatch(context.Context, Run) error { return r.place.err() }
func (r absentRunner) Follow(context.Context, Run, string, func(Output) error) (Outcome, error) {
	return Outcome{}, r.place.err()
}
func (r absentRunner) Changes(context.Context, Run) (*Changes, error) { return nil, r.place.err() }
func (r absentRunner) Patch(context.Context, Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, r.place.err()
}
func (r absentRunner) Interrupt(context.Context, Run, bool) error      { return r.place.err() }
func (r absentRunner) Send(context.Context, Run, string, string) error { return r.place.err() }
func (r absentRunner) Answer(context.Context, Run, Question) error     { return r.place.err() }
