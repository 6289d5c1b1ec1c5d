package peer

import (
	"context"
	"io"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

// readOnlyRunner reads through the runner that call provides. Its other methods return errReadOnly.
type readOnlyRunner struct {
	call func(context.Context, func(fleet.Runner) error) error
}

func (r readOnlyRunner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (page fleet.OutputPage, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		page, err = runner.Output(ctx, run, offset, limit)
		return err
	})
	return page, err
}

func (r readOnlyRunner) Compare(ctx context.Context, base, commit string) (c *fleet.Changes, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		c, err = runner.Compare(ctx, base, commit)
		return err
	})
	return c, err
}

func (r readOnlyRunner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (text []byte, more bool, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		text, more, err = runner.Patch(ctx, c, path, offset, limit)
		return err
	})
	return text, more, err
}

func (r readOnlyRunner) Bundle(ctx context.Context, w io.Writer) error {
	return r.call(ctx, func(runner fleet.Runner) error { return runner.Bundle(ctx, w) })
}

// Runner implements state.OtherServers. The methods that read return BACKEND_UNAVAILABLE if the server does not answer.
func (p *Peers) Runner(server string, a fleet.Agent) fleet.Runner {
	return readOnlyRunner{func(ctx context.Context, f func(fleet.Runner) error) error {
		address, err := p.addressOf(ctx, server)
		if err != nil {
			return err
		}
		unavailable := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent %q is on the machine of the server %s, which does not answer: start that server, or try again later", a.Name, server).With("server", server)
		if address == "" {
			return unavailable
		}
		c := p.clients.Get(remote.ClientConfig{URL: "https://" + address, Key: p.key, HTTP: p.http, Version: p.config.Version, RetryTimeout: connectTimeout})
		if err = f(c.Connect(a)); fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
			return unavailable.WithCause(err)
		}
		return err
	}}
}

// localRunners implements remote.Runners. It connects other servers to the runners of agents on this machine.
type localRunners struct{ peers *Peers }

func (l localRunners) Connect(a fleet.Agent) fleet.Runner {
	return readOnlyRunner{func(ctx context.Context, f func(fleet.Runner) error) error {
		local, err := l.peers.localAgent(ctx, a.UID)
		if err != nil {
			return err
		}
		return f(l.peers.config.Place(local.Place).Connect(*local))
	}}
}

// errReadOnly is the error of the methods that servers do not call on each other.
var errReadOnly = fleet.Errorf(fleet.ReasonUnimplemented, "servers only read from each other")

func (readOnlyRunner) Dispatch(context.Context, fleet.Run) error { return errReadOnly }

func (readOnlyRunner) Follow(context.Context, fleet.Run, string, func(fleet.Output) error) (fleet.Outcome, error) {
	return fleet.Outcome{}, errReadOnly
}

func (readOnlyRunner) Interrupt(context.Context, fleet.Run, bool) error { return errReadOnly }

func (readOnlyRunner) Send(context.Context, fleet.Run, string, string) error { return errReadOnly }

func (readOnlyRunner) Answer(context.Context, fleet.Run, fleet.Question) error { return errReadOnly }

func (readOnlyRunner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, errReadOnly
}

func (readOnlyRunner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, errReadOnly
}
