package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// outputQueue is how many pieces of output wait for the store before the run's reader waits for it.
const outputQueue = 64

// follower follows one run in the background and takes its output into the event log. What has come while the store
// was busy goes into the next transaction together.
type follower struct {
	taskID  string
	ctx     context.Context //nolint:containedctx // of following, also for the messages meanwhile
	cancel  context.CancelFunc
	post    *postman      // of the run's messages; nil: there were none yet
	done    chan struct{} // closed at the end
	outcome Outcome
	err     error
}

// followRun begins to follow the task's run where the event log ends.
func (w *worker) followRun(ctx context.Context, a *Agent, t *Task) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{taskID: t.ID, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	w.follow = f
	w.progress.begin(t.ID, w.now())
	host, agent, run, cursor := w.host(a), *a, t.run(true), t.Cursor
	queue, written := make(chan Output, outputQueue), make(chan error, 1)
	go func() {
		defer close(f.done)
		defer cancel()
		_, given, err := w.messages(ctx, t.ID)
		if run.Messages = given; err != nil {
			close(queue)
			f.err = errors.Join(err, <-written)
			return
		}
		f.outcome, f.err = host.Connect(agent).Follow(ctx, run, cursor, func(o Output) error {
			w.progress.saw(o, w.now())
			select {
			case queue <- o:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(queue)
		if err := <-written; err != nil { // the end is not recorded before all of the output is
			f.err = err
		}
	}()
	go func() {
		err := w.record(ctx, t.ID, cursor, queue, func() bool { return f.err == nil })
		if err != nil {
			cancel()
		}
		for range queue { // what was not recorded comes again with the next Follow
			continue
		}
		written <- err
	}()
}

// errFollowed is the error of a follower that comes second: another process follows the run too, since this one was so
// slow that it lost its lease and has not noticed yet.
var errFollowed = errors.New("another process has recorded the run's output meanwhile")

// record takes what comes through the queue after the cursor into the event log, until the queue is closed. Of an output that
// is longer than its limit, it adds the end when the run has ended, which ended tells once the queue is closed.
func (w *worker) record(ctx context.Context, taskID, cursor string, queue <-chan Output, ended func() bool) error {
	var rest lastOutput
	full := false // output is lost, since the store has no room for it
	for o := range queue {
		batch := []Output{o}
		for more := true; more && len(batch) < outputQueue; {
			select {
			case o, ok := <-queue:
				if more = ok; ok {
					batch = append(batch, o)
				}
			default:
				more = false
			}
		}
		left, at, short := batch, cursor, false // left is what comes after the limit
		if rest.seen == 0 || slices.ContainsFunc(batch, func(o Output) bool { return o.Question != nil }) {
			err := w.changeTask(ctx, taskID, func(tx Tx, t *Task) error {
				if t.Cursor != cursor {
					return errFollowed
				}
				lost := false
				left = nil
				for _, o := range batch {
					var err error
					switch {
					case o.Question != nil: // whatever the limit, since the run waits for the answer
						err = w.takeQuestion(tx, t, *o.Question)
					case rest.seen > 0 || t.OutputSize > w.cfg.MaxOutput:
						left = append(left, o)
					default:
						err = w.take(tx, t, o)
					}
					if errors.Is(err, ErrStoreFull) {
						lost, err = true, nil
					}
					if err != nil {
						return err
					}
				}
				short, at = lost, t.Cursor
				if lost && !full { // the run's end matters more than its output
					return tx.Append(t.event(EventTaskStep, w.now(), "output is not kept: the disk of the server's data is full"))
				}
				return nil
			})
			if err != nil {
				return err
			}
			full = short
		}
		if at != cursor {
			cursor = at
			w.cfg.Fault(FaultFollowOutput)
		}
		for _, o := range left { // after a crash it comes again, since the cursor stays
			rest.add(o)
		}
	}
	if rest.seen == 0 || !ended() {
		return nil
	}
	return w.changeTask(ctx, taskID, func(tx Tx, t *Task) error {
		if t.Cursor != cursor {
			return errFollowed
		}
		if rest.dropped > 0 {
			text := fmt.Sprintf("%d bytes of output are left out here", rest.dropped)
			if err := tx.Append(t.event(EventTaskStep, w.now(), text)); err != nil {
				return err
			}
		}
		t.OutputSize += rest.seen
		for _, o := range rest.outputs {
			t.Cursor = o.Cursor
			if err := w.append(tx, t, o); err != nil && !errors.Is(err, ErrStoreFull) {
				return err
			}
		}
		return nil
	})
}

// lastOutputSize is how much of the end of an output goes into the event log when the output is longer than its limit, in
// bytes. The payload of the task has more of it.
const lastOutputSize = 256 << 10

// lastOutput keeps the last pieces of an output.
type lastOutput struct {
	outputs             []Output
	seen, kept, dropped int64 // bytes
}

func (l *lastOutput) add(o Output) {
	l.outputs = append(l.outputs, o)
	l.seen, l.kept = l.seen+o.size(), l.kept+o.size()
	for len(l.outputs) > 1 && l.kept > lastOutputSize {
		n := l.outputs[0].size()
		l.kept, l.dropped = l.kept-n, l.dropped+n
		l.outputs = l.outputs[1:]
	}
}

func (o Output) size() int64 { return int64(len(o.Text) + len(o.Data)) }

// take takes one piece of output into the event log, with its cursor, so that none is lost or doubled by a crash.
func (w *worker) take(tx Tx, t *Task, o Output) error {
	t.Cursor = o.Cursor
	t.OutputSize += o.size()
	if err := w.recovered(tx, t); err != nil {
		return err
	}
	if err := w.append(tx, t, o); err != nil || t.OutputSize <= w.cfg.MaxOutput {
		return err
	}
	return tx.Append(t.event(EventTaskStep, w.now(), fmt.Sprintf("more output than %d bytes: of the rest, the end is shown when the task has ended", w.cfg.MaxOutput)))
}

// append adds the piece of output to the event log.
func (w *worker) append(tx Tx, t *Task, o Output) error {
	if o.size() == 0 {
		return nil
	}
	e := t.event(EventTaskOutput, w.now(), o.Text)
	if o.Step {
		e.Type = EventTaskStep
	}
	e.Data = o.Data
	return tx.Append(e)
}

// unfollow ends following and waits for it. The run goes on.
func (w *worker) unfollow() {
	if w.follow != nil {
		w.follow.cancel()
		<-w.follow.done
		w.follow.post.end()
		w.follow = nil
	}
}
