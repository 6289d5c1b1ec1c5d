package subagents

import (
	"context"
	"errors"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/conversation"
)

// Service runs subagents. List and Run act for the principal in their context, and are safe for concurrent use.
type Service struct {
	core    *service.Service
	config  Config
	dir     *directory
	turns   *conversation.Turns
	sweeper *conversation.Sweeper // nil until started
}

// New returns a service over the core. Call Start to begin the periodic search for abandoned agents.
func New(core *service.Service, cfg Config) *Service {
	cfg = cfg.withDefaults()
	local, _ := core.TraitsOf(cfg.Local)
	return &Service{
		core: core, config: cfg, dir: &directory{path: cfg.Dir, drivers: local.Drivers, now: cfg.Now}, turns: conversation.NewTurns(cfg.MaxWaiting),
	}
}

// ListEntry is a subagent as a caller sees it.
type ListEntry struct {
	*Definition
	Allowed bool // the caller may run it
}

// InvalidDefinition is a definition that cannot be used. Name is the name of the subagent, or the path of the file if another
// file defines this name.
type InvalidDefinition struct{ Name, Reason string }

// List returns the subagents and the invalid definitions, both sorted by name. An agent sees only the subagents that
// it may run, and no invalid definitions.
func (s *Service) List(ctx context.Context) ([]ListEntry, []InvalidDefinition, error) {
	c, err := s.callerFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	definitions, loadErrs, err := s.dir.all()
	if err != nil {
		return nil, nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "%s", err).WithCause(err)
	}
	list := []ListEntry{}
	for _, d := range definitions {
		if err := s.checkUsable(d); err != nil {
			loadErrs[d.Name] = errors.New(fleet.PublicMessage(err))
			continue
		}
		if l := (ListEntry{Definition: d, Allowed: s.mayRun(c, d)}); l.Allowed || !c.isAgent {
			l.Definition = s.withTimeout(d)
			list = append(list, l)
		}
	}
	if c.isAgent {
		return list, nil, nil
	}
	invalid := []InvalidDefinition{}
	for _, name := range sortedKeys(loadErrs) {
		invalid = append(invalid, InvalidDefinition{Name: strings.ToValidUTF8(fleet.Shorten(name, 64), "\uFFFD"), Reason: loadErrs[name].Error()})
	}
	return list, invalid, nil
}

// withTimeout returns the definition with its effective timeout.
func (s *Service) withTimeout(d *Definition) *Definition {
	if d.Timeout > 0 {
		return d
	}
	t := *d
	t.Timeout = s.config.Timeout
	return &t
}

// definition returns the subagent with the name. It returns an error if there is none, if the caller may not run it, or
// if it cannot be run.
func (s *Service) definition(c caller, name string) (*Definition, error) {
	if name == "" {
		return nil, fleet.InvalidField("agent_name", "agent_name is required: name a subagent").Next("{list_subagents} lists them")
	}
	d, err := s.dir.get(name)
	switch {
	case errors.Is(err, errNoDefinition):
		return nil, s.notFoundError(c, name)
	case err != nil:
		return nil, s.invalidError(name, err.Error())
	case !s.mayRun(c, d):
		return nil, s.refusalError(c, d)
	}
	if err := s.checkUsable(d); err != nil {
		return nil, s.invalidError(name, fleet.PublicMessage(err))
	}
	return s.withTimeout(d), nil
}

func (s *Service) invalidError(name, reason string) error {
	return fleet.Errorf(fleet.ReasonDefinitionInvalid, "the subagent %q cannot be used: %s", name, reason).With("agent_name", name)
}

// notFoundError returns an error that lists the subagents that the caller may run.
func (s *Service) notFoundError(c caller, name string) error {
	var names []string
	if definitions, _, err := s.dir.all(); err == nil {
		for _, d := range definitions {
			if s.mayRun(c, d) && s.checkUsable(d) == nil {
				names = append(names, d.Name)
			}
		}
	}
	available := strings.Join(names, ", ")
	hint := "there are " + fleet.Shorten(available, 2000)
	if len(names) == 0 {
		hint = "there is none that you may run"
	}
	name = fleet.Shorten(strings.ToValidUTF8(name, "\uFFFD"), 64)
	return fleet.Errorf(fleet.ReasonSubagentNotFound, "there is no subagent %q: %s", name, hint).
		With("agent_name", name).With("available", fleet.Shorten(available, 2000))
}

// checkUsable returns an error if this server cannot run a subagent whose definition is valid. The error says why.
func (s *Service) checkUsable(d *Definition) error {
	if _, ok := s.core.TraitsOf(s.placeOf(d)); !ok {
		return fleet.Errorf(fleet.ReasonDefinitionInvalid, "this server has no place %q to run it", d.RunsIn)
	}
	if err := d.checkVariables(s.config.Lookup); err != nil {
		return err
	}
	if cycle := s.findCycle(d); cycle != "" {
		return fleet.Errorf(fleet.ReasonDefinitionInvalid, "its calls form a cycle: %s", cycle)
	}
	return nil
}

// placeOf returns the name of the place that runs the subagent.
func (s *Service) placeOf(d *Definition) string {
	if d.RunsIn == runsInLocal {
		return s.config.Local
	}
	return d.RunsIn
}

// findCycle returns the path on which the definition's calls lead back to the definition. It returns "" if there is none.
func (s *Service) findCycle(d *Definition) string {
	visited := map[string]bool{}
	var path []string
	var walk func(from *Definition) bool
	walk = func(from *Definition) bool {
		path = append(path, from.Name)
		for _, name := range from.Subagents {
			if name == d.Name {
				return true
			}
			if visited[name] {
				continue
			}
			visited[name] = true
			if next, err := s.dir.get(name); err == nil && walk(next) {
				return true
			}
		}
		path = slices.Delete(path, len(path)-1, len(path))
		return false
	}
	if !walk(d) {
		return ""
	}
	return strings.Join(append(path, d.Name), " → ")
}
