package state

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// absentPlace stands in for a place that this server does not have, although agents in the store belong to it. Either
// the place is not configured, or it is a place of another server.
type absentPlace struct {
	name            string
	server          string                          // the server that has the place; "" if it is not configured
	placeOfSameKind func(name string) *ManagedPlace // see Places.placeOfSameKind; nil if the place is not configured
	traits          fleet.Traits                    // traits of the other server's place
	others          OtherServers                    // reads from the other server's place; nil if that is not possible
}

func (p absentPlace) err() *fleet.Error {
	if p.server != "" {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent is on the machine of the server %s, and only that server can do this: call that server", p.server)
	}
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "the place %q is not configured: configure it and start the server again", p.name)
}

func (p absentPlace) Traits() fleet.Traits {
	t := p.traits
	t.Name = p.name
	return t
}

// reader returns the reader of the place; nil if the place cannot be read.
func (p absentPlace) reader() PlaceReader {
	if p.others == nil {
		return nil
	}
	return p.others.Place(p.server, p.name)
}

func (p absentPlace) Projects(ctx context.Context) ([]fleet.Project, error) {
	if r := p.reader(); r != nil {
		return r.Projects(ctx)
	}
	return nil, p.err()
}

func (p absentPlace) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	if r := p.reader(); r != nil {
		return r.Roles(ctx, project)
	}
	return nil, p.err()
}

func (p absentPlace) Provision(context.Context, fleet.Agent) (fleet.Workspace, error) {
	return fleet.Workspace{}, p.err()
}

func (p absentPlace) Start(context.Context, fleet.Agent) error { return p.err() }

func (p absentPlace) Stop(context.Context, fleet.Agent) error { return p.err() }

func (p absentPlace) Delete(context.Context, fleet.Agent) (string, error) { return "", p.err() }

func (p absentPlace) Inspect(context.Context, fleet.Agent) (fleet.Workspace, error) {
	return fleet.Workspace{}, p.err()
}

func (p absentPlace) List(context.Context) ([]fleet.Workspace, error) { return nil, p.err() }

func (p absentPlace) Connect(a fleet.Agent) fleet.Runner {
	r := absentRunner{place: p}
	if p.others != nil {
		r.reader = p.others.Runner(p.server, a)
	}
	return r
}

func (p absentPlace) Log(ctx context.Context, a fleet.Agent, lines int) ([]string, bool, error) {
	if r := p.reader(); r != nil {
		return r.Log(ctx, a, lines)
	}
	return nil, false, p.err()
}

// KeptWork implements fleet.Keeper.
func (p absentPlace) KeptWork(ctx context.Context, uid string) ([]fleet.KeptWork, error) {
	if r := p.reader(); r != nil {
		return r.KeptWork(ctx, uid)
	}
	return nil, p.err()
}

// UnsavedWork implements fleet.Examiner.
func (p absentPlace) UnsavedWork(ctx context.Context, a fleet.Agent) (string, error) {
	if r := p.reader(); r != nil {
		return r.UnsavedWork(ctx, a)
	}
	return "", p.err()
}

// CheckOptions implements fleet.Optioner. Like UnconfinedReason, it gives the answer of this server's place of the same kind.
func (p absentPlace) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	if p.placeOfSameKind == nil {
		return o.CheckSupported(nil, "the place "+p.name, nil)
	}
	return fleet.CheckOptions(p.placeOfSameKind(p.name).Place, a, o)
}

// MaxCost implements fleet.CostLimiter. It gives the answer of this server's place of the same kind.
func (p absentPlace) MaxCost(project, role string) fleet.Micros {
	if p.placeOfSameKind == nil {
		return 0
	}
	return p.placeOfSameKind(p.name).MaxCost(project, role)
}

// CheckAttach implements fleet.Attacher. A terminal must be connected with the server of the agent's machine.
func (p absentPlace) CheckAttach(fleet.Agent) error { return p.err() }

// Attach implements fleet.Attacher.
func (p absentPlace) Attach(context.Context, fleet.Agent, fleet.Run, <-chan fleet.TerminalInput, func([]byte) error) error {
	return p.err()
}

// UnconfinedReason implements fleet.Confiner. It gives the answer of this server's place of the same kind, because transactions call it,
// and they must not wait for the other server. If this server does not have the agent's project, it cannot know whether the
// agent's programs are confined, and the answer says so.
func (p absentPlace) UnconfinedReason(a fleet.Agent) string {
	if p.placeOfSameKind == nil {
		return ""
	}
	place := p.placeOfSameKind(p.name)
	c, ok := place.Place.(fleet.Confiner)
	if !ok {
		return ""
	}
	if why := c.UnconfinedReason(a); why != "" || a.Project == "" {
		return why
	}
	if a.Config != nil && a.Config.Place != "" { // it works in a project of another place
		place = p.placeOfSameKind(a.Config.Place)
	}
	if place != nil {
		projects, err := place.Projects(context.Background())
		if err == nil && slices.ContainsFunc(projects, func(known fleet.Project) bool { return strings.EqualFold(known.Name, a.Project) }) {
			return ""
		}
	}
	return fmt.Sprintf("this server cannot know about the agent, because it does not have the project %q: call the server %s", a.Project, p.server)
}

func (p absentPlace) Close() error { return nil }

// absentRunner is the runner of an agent in an absent place.
type absentRunner struct {
	place  absentPlace
	reader fleet.Runner // reads from the agent's server; nil if that is not possible
}

func (r absentRunner) Dispatch(context.Context, fleet.Run) error { return r.place.err() }

func (r absentRunner) Follow(context.Context, fleet.Run, string, func(fleet.Output) error) (fleet.Outcome, error) {
	return fleet.Outcome{}, r.place.err()
}

func (r absentRunner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, r.place.err()
}

func (r absentRunner) Compare(ctx context.Context, base, commit string) (*fleet.Changes, error) {
	if r.reader != nil {
		return r.reader.Compare(ctx, base, commit)
	}
	return nil, r.place.err()
}

func (r absentRunner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) ([]byte, bool, error) {
	if r.reader != nil {
		return r.reader.Patch(ctx, c, path, offset, limit)
	}
	return nil, false, r.place.err()
}

func (r absentRunner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (fleet.OutputPage, error) {
	if r.reader != nil {
		return r.reader.Output(ctx, run, offset, limit)
	}
	return fleet.OutputPage{}, r.place.err()
}

func (r absentRunner) Interrupt(context.Context, fleet.Run, bool) error { return r.place.err() }

func (r absentRunner) Send(context.Context, fleet.Run, string, string) error { return r.place.err() }

func (r absentRunner) Answer(context.Context, fleet.Run, fleet.Question) error { return r.place.err() }

func (r absentRunner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, r.place.err()
}

func (r absentRunner) Bundle(ctx context.Context, w io.Writer) error {
	if r.reader != nil {
		return r.reader.Bundle(ctx, w)
	}
	return r.place.err()
}
