package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// outputQueueSize is how many pieces of output may wait for the store. If there are more, reading from the run pauses.
const outputQueueSize = 64

// follower follows one run in the background and writes its output to the event log. Output that arrives while the
// store is busy is written together in the next transaction.
type follower struct {
	taskID    string
	run       fleet.Run
	startedAt time.Time       // by this process's clock
	ctx       context.Context //nolint:containedctx // context of Follow, and of the deliveries of messages meanwhile
	cancel    context.CancelFunc
	delivery  *delivery     // delivers the run's messages; nil if there were none
	done      chan struct{} // closed when outcome and err are set
	outcome   fleet.Outcome
	err       error

	checks *fleet.Checks // the checks that are running, after the run has ended; nil while the run is followed
}

// followRun starts to follow the task's run from the output position that the event log has. isNew means that the run was
// just dispatched, so it has not received messages yet.
func (w *worker) followRun(ctx context.Context, a *fleet.Agent, t *fleet.Task, isNew bool) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{taskID: t.ID, run: t.Run(), startedAt: time.Now(), ctx: ctx, cancel: cancel, done: make(chan struct{})}
	w.follower = f
	activeAt := w.now()
	if t.Stalled() { // an earlier process has recorded the stall, and only output ends it
		activeAt = t.StalledAt.Add(-w.cfg.StallTimeout)
	}
	w.progress.begin(t.ID, activeAt)
	host, agent, task, run, cursor := w.places.Of(a), *a, *t, t.Run(), t.Cursor
	queue, recordResult := make(chan fleet.Output, outputQueueSize), make(chan error, 1)
	go func() {
		defer close(f.done)
		defer cancel()
		if !isNew {
			var err error
			if _, run.Messages, err = w.messages(ctx, &task); err != nil {
				close(queue)
				f.err = errors.Join(err, <-recordResult)
				return
			}
		}
		spanCtx, end := w.cfg.Span(ctx, "task.follow", &agent, &task)
		f.err = catchPanic(func() (err error) {
			f.outcome, err = host.Connect(agent).Follow(spanCtx, run, cursor, func(o fleet.Output) error {
				w.progress.observeOutput(o, w.now())
				select {
				case queue <- o:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			return err
		})
		end(f.err)
		close(queue)
		if err := <-recordResult; err != nil { // wait, because the end must be recorded after all output
			f.err = err
		}
	}()
	go func() {
		err := catchPanic(func() error { return w.recordOutputs(ctx, t.ID, cursor, queue, func() bool { return f.err == nil }) })
		if err != nil {
			cancel()
		}
		for range queue { // the next Follow delivers unrecorded output again
			continue
		}
		recordResult <- err
	}()
}

// errOtherFollower means that another process also follows the run. This process was so slow that it has lost its lease without
// noticing.
var errOtherFollower = errors.New("another process has recorded the run's output meanwhile")

// recordOutputs writes the output from the queue after the cursor to the event log, until the queue is closed. If the output
// exceeds its limit, recordOutputs adds the last part when the run has ended. When the queue is closed, ended reports whether the
// run has ended.
func (w *worker) recordOutputs(ctx context.Context, taskID, cursor string, queue <-chan fleet.Output, ended func() bool) error {
	var tail outputTail
	noSpace := false            // the store had no space for output of the last batch
	var notify <-chan time.Time // receives when it is time to notify watchers of more output
	for {
		var batch []fleet.Output
		select {
		case o, ok := <-queue:
			if !ok {
				return w.recordTail(ctx, taskID, cursor, &tail, ended)
			}
			batch = appendWaiting([]fleet.Output{o}, queue)
		case <-notify:
			notify = nil
			if err := w.notifyMoreOutput(ctx, taskID, &tail); err != nil {
				return err
			}
			continue
		}
		excess, newCursor := batch, cursor // excess is the output beyond the limit
		if tail.total == 0 || slices.ContainsFunc(batch, func(o fleet.Output) bool { return o.Question != nil }) {
			var err error
			if excess, newCursor, noSpace, err = w.recordBatch(ctx, taskID, cursor, batch, tail.total > 0, noSpace); err != nil {
				return err
			}
		}
		if newCursor != cursor {
			cursor = newCursor
			w.cfg.Fault(FaultFollowOutput)
		}
		for _, o := range excess { // after a crash, Follow delivers it again, because the cursor does not advance
			tail.add(o)
		}
		if err := w.addExcessUsage(ctx, taskID, &tail, excess); err != nil {
			return err
		}
		if len(excess) > 0 && notify == nil {
			notify = time.After(notifyInterval)
		}
	}
}

// appendWaiting appends the outputs that wait in the queue, until the batch has outputQueueSize outputs.
func appendWaiting(batch []fleet.Output, queue <-chan fleet.Output) []fleet.Output {
	for len(batch) < outputQueueSize {
		select {
		case o, ok := <-queue:
			if !ok {
				return batch
			}
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// recordBatch writes the outputs to the event log, except those beyond the limit, which it returns as excess. allBeyond means that all
// are beyond the limit. newCursor is the cursor after the written ones. noSpace reports whether the store had no space for one of them;
// hadNoSpace is noSpace of the batch before: then no further event is needed. Questions are recorded regardless of the limit,
// because the run waits for the answers.
func (w *worker) recordBatch(ctx context.Context, taskID, cursor string, batch []fleet.Output, allBeyond, hadNoSpace bool) (excess []fleet.Output, newCursor string, noSpace bool, err error) {
	excess, newCursor = batch, cursor
	err = w.changeTask(ctx, taskID, func(tx fleet.Tx, t *fleet.Task) error {
		if t.Cursor != cursor {
			return errOtherFollower
		}
		excess, noSpace = nil, false
		for _, o := range batch {
			var err error
			switch {
			case o.Question != nil:
				err = w.recordQuestion(tx, t, *o.Question)
			case allBeyond || t.OutputSize > w.cfg.MaxOutput:
				excess = append(excess, o)
			default:
				err = w.recordOutput(tx, t, o)
			}
			if errors.Is(err, fleet.ErrStoreFull) {
				noSpace, err = true, nil
			}
			if err != nil {
				return err
			}
		}
		newCursor = t.Cursor
		if noSpace && !hadNoSpace { // the run's end is more important than its output
			return tx.Append(t.Event(fleet.EventTaskStep, w.now(), "output is not kept: the disk of the server's data is full"))
		}
		return nil
	})
	return excess, newCursor, noSpace, err
}

// notifyInterval is how often watchers are notified of output that is not in the event log.
const notifyInterval = time.Second

// notifyMoreOutput notifies watchers that the task has output that is not in the event log. They can read it from the run.
func (w *worker) notifyMoreOutput(ctx context.Context, taskID string, tail *outputTail) error {
	return w.changeTask(ctx, taskID, func(tx fleet.Tx, t *fleet.Task) error {
		err := tx.Append(t.Event(fleet.EventTaskMoreOutput, w.now(), fmt.Sprintf("%d bytes of output so far", t.OutputSize+tail.total)))
		if errors.Is(err, fleet.ErrStoreFull) {
			return nil
		}
		return err
	})
}

// addExcessUsage adds the usage in excess, which is output beyond the limit, to tail, so that the task keeps within its budgets.
func (w *worker) addExcessUsage(ctx context.Context, taskID string, tail *outputTail, excess []fleet.Output) error {
	hasUsage := false
	for _, o := range excess {
		if s := fleet.ParseStep(o.Data); s != nil && s.Type == fleet.StepUsage {
			tail.usage, hasUsage = append(tail.usage, s), true
			tail.sum.AddStep(fleet.ParseStep(o.Data), w.cfg.Price) // parsed again, because AddStep sets the cost in the step
		}
	}
	if !hasUsage {
		return nil
	}
	return w.changeTask(ctx, taskID, func(tx fleet.Tx, t *fleet.Task) error {
		all := *t
		all.CostUSD += tail.sum.CostUSD
		all.Usage.InputTokens += tail.sum.Usage.InputTokens
		all.Usage.OutputTokens += tail.sum.Usage.OutputTokens
		err := state.ExtendOrStop(tx, &all, w.now())
		t.StopRequestedAt, t.StopReason, t.Spending.Reserve = all.StopRequestedAt, all.StopReason, all.Spending.Reserve
		return err
	})
}

// recordTail adds the last part of an output that exceeds its limit to the event log. It does nothing if the run has not ended,
// because the next Follow delivers this output again.
func (w *worker) recordTail(ctx context.Context, taskID, cursor string, tail *outputTail, ended func() bool) error {
	if tail.total == 0 || !ended() {
		return nil
	}
	return w.changeTask(ctx, taskID, func(tx fleet.Tx, t *fleet.Task) error {
		if t.Cursor != cursor {
			return errOtherFollower
		}
		if tail.dropped > 0 {
			text := fmt.Sprintf("%d bytes of output are left out here", tail.dropped)
			if err := tx.Append(t.Event(fleet.EventTaskStep, w.now(), text)); err != nil {
				return err
			}
		}
		t.OutputSize += tail.total
		for _, s := range tail.usage {
			t.AddStep(s, w.cfg.Price)
		}
		for _, o := range tail.outputs {
			t.Cursor = o.Cursor
			if err := w.appendOutput(tx, t, o, fleet.ParseStep(o.Data)); err != nil && !errors.Is(err, fleet.ErrStoreFull) {
				return err
			}
		}
		return nil
	})
}

// lastOutputSize is how many bytes from the end of an output that exceeds its limit are written to the event log. If the last
// piece is larger, the whole piece is written.
const lastOutputSize = 256 << 10

// outputTail keeps the last pieces of the output beyond the limit, and the usage in all of that output.
type outputTail struct {
	outputs              []fleet.Output
	total, kept, dropped int64         // sizes in bytes of all pieces, of outputs, and of the other pieces
	usage                []*fleet.Step // steps about usage, of all pieces
	sum                  fleet.Task    // has the sum of usage
}

func (t *outputTail) add(o fleet.Output) {
	t.outputs = append(t.outputs, o)
	t.total, t.kept = t.total+outputSize(o), t.kept+outputSize(o)
	for len(t.outputs) > 1 && t.kept > lastOutputSize {
		n := outputSize(t.outputs[0])
		t.kept, t.dropped = t.kept-n, t.dropped+n
		t.outputs = t.outputs[1:]
	}
}

func outputSize(o fleet.Output) int64 { return int64(len(o.Text) + len(o.Data)) }

// recordOutput writes one piece of output with its cursor, so that a crash neither loses nor repeats output.
func (w *worker) recordOutput(tx fleet.Tx, t *fleet.Task, o fleet.Output) error {
	t.Cursor = o.Cursor
	t.OutputSize += outputSize(o)
	t.Terminal = t.Terminal || o.Terminal
	if o.ConversationLost != "" {
		t.ConversationLost = o.ConversationLost
	}
	step := fleet.ParseStep(o.Data)
	if step != nil {
		t.AddStep(step, w.cfg.Price)
	}
	if step != nil && step.Type == fleet.StepUsage { // now with its cost
		o.Data = step.JSON()
		if err := state.ExtendOrStop(tx, t, w.now()); err != nil {
			return err
		}
	}
	if step != nil && step.Limit != nil {
		a, err := tx.Agent(t.AgentUID)
		if err == nil && a != nil {
			err = state.RecordUsageLimit(tx, a, *step.Limit, w.now())
		}
		if err != nil {
			return err
		}
	}
	if step == nil || step.Type != fleet.StepRetry { // a repeated request is not progress
		if err := w.clearStall(tx, t); err != nil {
			return err
		}
	}
	if err := w.appendOutput(tx, t, o, step); err != nil || t.OutputSize <= w.cfg.MaxOutput {
		return err
	}
	return tx.Append(t.Event(fleet.EventTaskStep, w.now(), fmt.Sprintf("the output exceeds %d bytes: the end of the rest is shown when the task has ended", w.cfg.MaxOutput)))
}

// appendOutput adds the piece of output to the event log. step is its parsed data; nil if it has only text.
func (w *worker) appendOutput(tx fleet.Tx, t *fleet.Task, o fleet.Output, step *fleet.Step) error {
	if outputSize(o) == 0 {
		return nil
	}
	e := t.Event(fleet.EventTaskOutput, w.now(), o.Text)
	switch {
	case !o.IsStep:
	case step != nil && step.Type.IsDetail():
		e.Type = fleet.EventTaskDetail
	default:
		e.Type = fleet.EventTaskStep
	}
	e.Data = o.Data
	return tx.Append(e)
}

// stopFollowing stops following and waits until it has stopped. The run continues.
func (w *worker) stopFollowing() {
	if w.follower != nil {
		w.follower.cancel()
		<-w.follower.done
		w.follower.delivery.end()
		w.follower = nil
	}
}
