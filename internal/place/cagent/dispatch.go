//go:build cgo

package cagent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Dispatch implements fleet.Runner.
func (w inProcess) Dispatch(ctx context.Context, r fleet.Run) error {
	b, a := w.place, w.agent
	if err := ctx.Err(); err != nil {
		return err
	}
	x := b.agent(a.UID)
	if x == nil {
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q has no workspace", a.Name)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := b.resume(ctx, x); err != nil {
		return err
	}
	switch {
	case x.runDir(r.TaskID).exists("run.json"):
		return nil
	case x.stopped || x.gone:
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q is stopped", a.Name)
	case x.run != nil && !x.run.ended():
		return fleet.Errorf(fleet.ReasonAgentBusy, "agent %q is busy with task %s", a.Name, x.run.ID)
	}
	_, err := b.start(x, func() (*live, error) { return b.begin(context.WithoutCancel(ctx), x, r) })
	if err == nil {
		x.home.log(b.config.Now(), "task %s: begun", r.TaskID)
	}
	return err
}

// start opens a run with the function open, and starts it. x.mu must be held.
func (b *Place) start(x *member, open func() (*live, error)) (*live, error) {
	if !b.enter() {
		return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "the server is being shut down")
	}
	l, err := open()
	if err != nil {
		b.runs.Done()
		return nil, hostError("cannot write the run's record", err)
	}
	x.run = l
	go func() {
		defer b.runs.Done()
		l.execute()
	}()
	return l, nil
}

// enter adds a run to the runs for which Drain and Close wait. It returns false if no run may begin any more.
func (b *Place) enter() bool {
	b.beginning.Lock()
	defer b.beginning.Unlock()
	if b.closed.Load() || b.draining {
		return false
	}
	b.runs.Add(1)
	return true
}

// live is a run in the server's process.
type live struct {
	*run
	ctx   context.Context //nolint:containedctx // done when the run is interrupted
	home  home            // directory of the run
	agent *member

	done    chan struct{} // closed when outcome and pause are set
	outcome fleet.Outcome
	pause   error // the error of Follow if the run was interrupted by the end of the server

	writing sync.Mutex
	written bool // the outcome is in its file
}

// begin creates the directory of a run and opens the run. It does not start the run.
func (b *Place) begin(ctx context.Context, x *member, r fleet.Run) (*live, error) {
	if err := os.Mkdir(string(x.runDir(r.TaskID)), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := x.home.write(activeFile, r.TaskID); err != nil {
		return nil, err
	}
	return b.open(ctx, x, runRecord{TaskID: r.TaskID, Timeout: r.Timeout, Started: b.config.Now(), Prompt: r.Prompt, Options: r.Options})
}

// open writes the record of a run and opens its output. It does not start the run.
func (b *Place) open(ctx context.Context, x *member, rec runRecord) (*live, error) {
	h := x.runDir(rec.TaskID)
	t, err := b.task(x, rec.TaskID, rec.Timeout)
	t.Options = rec.Options
	if err != nil {
		return nil, err
	}
	out, err := newOutput(h.path("output"), b.config.MaxOutput)
	if err != nil {
		return nil, err
	}
	if err := h.write("run.json", rec); err != nil {
		_ = out.close()
		return nil, err
	}
	l := &live{home: h, agent: x, done: make(chan struct{})}
	l.ctx, l.run = newRun(ctx, b.engine, t, &ledger{home: h, record: rec}, out)
	return l, nil
}

// task returns the input for a run of the agent.
func (b *Place) task(x *member, id string, timeout time.Duration) (task, error) {
	memory, err := b.memory(x)
	return task{Record: x.rec, ID: id, Timeout: timeout, Work: x.rec.work(x.home), State: x.state(), Memory: memory}, err
}

// execute executes the run, writes its outcome, and closes done. If the run was interrupted by the end of the server,
// execute writes no outcome, so that the next server resumes the run.
func (l *live) execute() {
	defer close(l.done)
	l.outcome = l.do(l.ctx, l.ledger.read().Prompt)
	_ = l.out.close()
	if l.paused() && !l.settled {
		l.keepSpent(func(r *runRecord) { r.Paused = true })
		l.pause = fleet.Errorf(fleet.ReasonBackendUnavailable, "the server is being shut down; the task continues when it is back")
		l.agent.home.log(l.engine.config.Now(), "task %s: interrupted by the end of the server", l.ID)
		return
	}
	_, _ = l.result() // Follow tries again
	l.agent.home.log(l.engine.config.Now(), "task %s: %s %s", l.ID, l.outcome.Status, l.outcome.Reason)
}

// result returns the outcome of a run that has ended. It fails as long as the outcome cannot be written: it would be another one
// after a restart of the server.
func (l *live) result() (fleet.Outcome, error) {
	if l.pause != nil {
		return fleet.Outcome{}, l.pause
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.written {
		if err := l.home.write("outcome.json", l.outcome); err != nil {
			return fleet.Outcome{}, hostError("cannot write the run's outcome", err)
		}
		l.written = true
	}
	return l.outcome, nil
}

func (l *live) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// live returns the agent's active or last run in this process if it has the task id, else nil. x.mu must be held.
func (x *member) live(taskID string) *live {
	if x.run != nil && x.run.ID == taskID {
		return x.run
	}
	return nil
}

// end kills the agent's last run in this process and returns it. why is the reason that the outcome reports. end does not
// change a run that has ended. It returns nil if there is no run.
func (x *member) end(why error) *live {
	x.mu.Lock()
	r := x.run
	x.mu.Unlock()
	if r != nil {
		r.kill(why)
	}
	return r
}

// endAndWait kills the agent's active run and waits until it has ended or ctx is done.
func (x *member) endAndWait(ctx context.Context, why error) error {
	r := x.end(why)
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outcome returns the outcome of a run that is not active. If no outcome was written, the run cannot be resumed, for example
// because an earlier version of Fleet began it. outcome then writes and returns a failure.
func (b *Place) outcome(h home) (fleet.Outcome, error) {
	var o fleet.Outcome
	err := h.read("outcome.json", &o)
	if errors.Is(err, fs.ErrNotExist) {
		o = fleet.Outcome{Status: fleet.TaskFailed, Reason: "the server ended while the task was under way; what the agent had done by then stays done"}
		err = h.write("outcome.json", o)
	}
	if err != nil {
		return fleet.Outcome{}, hostError("cannot read the run's outcome", err)
	}
	return o, nil
}

// Interrupt implements fleet.Runner.
func (w inProcess) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	b, a := w.place, w.agent
	if err := ctx.Err(); err != nil {
		return err
	}
	x := b.agent(a.UID)
	if x == nil {
		return nil
	}
	live, err := b.resumed(ctx, x, r.TaskID)
	if err != nil {
		return err
	}
	switch {
	case live == nil:
	case kill:
		live.kill(errInterrupted)
	default:
		live.interrupt()
	}
	return nil
}

// Answer implements fleet.Runner.
func (w inProcess) Answer(context.Context, fleet.Run, fleet.Question) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q asks no questions", w.agent.Name)
}

// Send implements fleet.Runner.
func (inProcess) Send(context.Context, fleet.Run, string, string) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "this agent accepts no messages while it works: wait for the end of its task, then start another one")
}
