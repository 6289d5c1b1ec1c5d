package peer

import (
	"context"
	"io"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

// Runner implements state.Elsewhere.
func (p *Peers) Runner(server string, a fleet.Agent) fleet.Runner {
	return remoteRunner{peers: p, name: server, agent: a}
}

// remoteRunner reads from another server.
type remoteRunner struct {
	fleet.Runner // nil: methods that are not defined below are never called, see state.Config

	peers *Peers
	name  string // of the server
	agent fleet.Agent
}

// call calls f with the agent's runner on the other server. It returns BACKEND_UNAVAILABLE if that server does not
// answer.
func (r remoteRunner) call(ctx context.Context, f func(fleet.Runner) error) error {
	address, err := r.peers.addressOf(ctx, r.name)
	if err != nil {
		return err
	}
	unavailable := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent %q is on the machine of the server %s, which does not answer: start that server, or try again later", r.agent.Name, r.name).With("server", r.name)
	if address == "" {
		return unavailable
	}
	c := r.peers.clients.Get(remote.ClientConfig{URL: "https://" + address, Key: r.peers.key, HTTP: r.peers.http, Version: r.peers.config.Version, RetryTimeout: answerTimeout})
	if err = f(c.Connect(r.agent)); fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
		return unavailable.WithCause(err)
	}
	return err
}

func (r remoteRunner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (page fleet.OutputPage, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		page, err = runner.Output(ctx, run, offset, limit)
		return err
	})
	return page, err
}

func (r remoteRunner) Compare(ctx context.Context, base, commit string) (c *fleet.Changes, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		c, err = runner.Compare(ctx, base, commit)
		return err
	})
	return c, err
}

func (r remoteRunner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (text []byte, more bool, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		text, more, err = runner.Patch(ctx, c, path, offset, limit)
		return err
	})
	return text, more, err
}

func (r remoteRunner) Bundle(ctx context.Context, w io.Writer) error {
	return r.call(ctx, func(runner fleet.Runner) error { return runner.Bundle(ctx, w) })
}

// localRunners are the runners that this server offers to other servers: the runners of agents on its machine. They only
// read.
type localRunners struct{ peers *Peers }

func (o localRunners) Connect(a fleet.Agent) fleet.Runner {
	return localRunner{peers: o.peers, uid: a.UID}
}

// localRunner is the runner of an agent on this machine, used by another server.
type localRunner struct {
	peers *Peers
	uid   string
}

// runner returns the runner of the agent, as localAgent finds it.
func (r localRunner) runner(ctx context.Context) (fleet.Runner, error) {
	a, err := r.peers.localAgent(ctx, r.uid)
	if err != nil {
		return nil, err
	}
	return r.peers.config.Place(a.Place).Connect(*a), nil
}

func (r localRunner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (fleet.OutputPage, error) {
	runner, err := r.runner(ctx)
	if err != nil {
		return fleet.OutputPage{}, err
	}
	return runner.Output(ctx, run, offset, limit)
}

func (r localRunner) Compare(ctx context.Context, base, commit string) (*fleet.Changes, error) {
	runner, err := r.runner(ctx)
	if err != nil {
		return nil, err
	}
	return runner.Compare(ctx, base, commit)
}

func (r localRunner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) ([]byte, bool, error) {
	runner, err := r.runner(ctx)
	if err != nil {
		return nil, false, err
	}
	return runner.Patch(ctx, c, path, offset, limit)
}

func (r localRunner) Bundle(ctx context.Context, w io.Writer) error {
	runner, err := r.runner(ctx)
	if err != nil {
		return err
	}
	return runner.Bundle(ctx, w)
}

// errReadOnly is the error of the methods that change something: a server does not call them on another server.
var errReadOnly = fleet.Errorf(fleet.ReasonUnimplemented, "servers only read from each other")

func (localRunner) Dispatch(context.Context, fleet.Run) error { return errReadOnly }

func (localRunner) Follow(context.Context, fleet.Run, string, func(fleet.Output) error) (fleet.Outcome, error) {
	return fleet.Outcome{}, errReadOnly
}

func (localRunner) Interrupt(context.Context, fleet.Run, bool) error { return errReadOnly }

func (localRunner) Send(context.Context, fleet.Run, string, string) error { return errReadOnly }

func (localRunner) Answer(context.Context, fleet.Run, fleet.Question) error { return errReadOnly }

func (localRunner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) {
	return nil, errReadOnly
}

func (localRunner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, errReadOnly
}
