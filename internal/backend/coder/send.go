package coder

import (
	"context"
	"sync"

	"fleet/internal/fleet"
)

// Send implements fleet.Backend. A message to an agent that works waits here until it can take it; the run does not
// end before.
func (b *Backend) Send(ctx context.Context, a fleet.Agent, r fleet.Run, id, text string) error {
	at, err := b.find(ctx, a)
	if err != nil {
		return err
	}
	api, err := b.reach(a, at)
	if err != nil {
		return err
	}
	var v *view
	for misses := 0; ; {
		if v, err = api.look(ctx); err == nil {
			break
		}
		if misses++; misses >= 3 {
			return notTaken(a, err)
		}
		if err := b.missed(ctx, a, at, err); err != nil {
			return err
		}
	}
	t := b.runs.of(r.TaskID)
	i, last := b.locate(v, a, r, t), false
	if i >= 0 {
		if b.queue.hasMessage(a.UID, r.TaskID, id) || b.hasLetter(v, t, i, id, text) {
			return nil
		}
		_, last = b.segment(v, a, t, i)
	}
	_, ended := t.result()
	if ended || !last || v.status == statusStable && !b.queue.has(a.UID, r.TaskID) {
		return fleet.Errorf(fleet.ReasonNoRunningTask, "the agent %q does not work on the task %s any more", a.Name, r.TaskID)
	}
	b.queue.add(b, &letter{agent: a, run: r, id: id, text: text})
	return nil
}

// queue are the messages that wait for agents to take them.
type queue struct {
	ctx     context.Context //nolint:containedctx // of what goes on in the background, until close
	cancel  context.CancelFunc
	mu      sync.Mutex
	letters map[string][]*letter // by agent
	posting sync.WaitGroup
}

// letter is a message on its way to a run.
type letter struct {
	agent    fleet.Agent
	run      fleet.Run
	id, text string
}

func (q *queue) init() {
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.letters = map[string][]*letter{}
}

func (q *queue) close() {
	q.cancel()
	q.posting.Wait()
}

func (q *queue) add(b *Backend, l *letter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return
	}
	waiting := q.letters[l.agent.UID]
	q.letters[l.agent.UID] = append(waiting, l)
	if len(waiting) == 0 {
		q.posting.Go(func() { b.post(q.ctx, l.agent.UID) })
	}
}

// has says whether messages wait for the run.
func (q *queue) has(uid, taskID string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.letters[uid] {
		if l.run.TaskID == taskID {
			return true
		}
	}
	return false
}

func (q *queue) hasMessage(uid, taskID, id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.letters[uid] {
		if l.run.TaskID == taskID && l.id == id {
			return true
		}
	}
	return false
}

// isLetter says whether the text is a message that waits for the agent, or is being given to it.
func (q *queue) isLetter(uid, text string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.letters[uid] {
		if typed(l.text) == text {
			return true
		}
	}
	return false
}

// first returns the message that is next for the agent; nil for none, and then nobody posts for the agent any more.
func (q *queue) first(uid string) *letter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting := q.letters[uid]; len(waiting) > 0 {
		return waiting[0]
	}
	delete(q.letters, uid)
	return nil
}

func (q *queue) remove(l *letter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filter(l.agent.UID, func(o *letter) bool { return o != l })
}

// dropRun drops what waits for the run.
func (q *queue) dropRun(uid, taskID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filter(uid, func(l *letter) bool { return l.run.TaskID != taskID })
}

// drop drops what waits for the agent.
func (q *queue) drop(uid string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filter(uid, func(*letter) bool { return false })
}

// filter keeps some of the agent's messages. The entry stays as long as somebody posts for the agent.
func (q *queue) filter(uid string, keep func(*letter) bool) {
	waiting, posted := q.letters[uid]
	if !posted {
		return
	}
	left := []*letter{}
	for _, l := range waiting {
		if keep(l) {
			left = append(left, l)
		}
	}
	q.letters[uid] = left
}

// post gives the agent its messages, one by one, whenever it has come to rest.
func (b *Backend) post(ctx context.Context, uid string) {
	for ctx.Err() == nil {
		l := b.queue.first(uid)
		if l == nil {
			return
		}
		switch again, err := b.postOne(ctx, l); {
		case ctx.Err() != nil:
			return
		case again:
			if b.wait(ctx, pollPause) != nil {
				return
			}
		default:
			if err != nil {
				b.config.Logger.WarnContext(ctx, "a message was not given to its agent", "agent", l.agent.Name, "task", l.run.TaskID, "error", err)
			}
			b.queue.remove(l)
		}
	}
}

// postOne gives an agent a message; again says that it may take it later.
func (b *Backend) postOne(ctx context.Context, l *letter) (again bool, err error) {
	at, err := b.find(ctx, l.agent)
	if err != nil {
		return fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable, err
	}
	api, err := b.reach(l.agent, at)
	if err != nil {
		return at != nil && at.ws.LatestBuild.Status == "running", err
	}
	t := b.runs.of(l.run.TaskID)
	over := fleet.Errorf(fleet.ReasonNoRunningTask, "the run has ended")
	_, err = b.give(ctx, l.agent, at, api, giving{
		done: func(v *view) bool {
			i := b.locate(v, l.agent, l.run, t)
			return i >= 0 && b.hasLetter(v, t, i, l.id, l.text)
		},
		text: func(v *view) (string, error) {
			i := b.locate(v, l.agent, l.run, t)
			if i < 0 || !b.queue.hasMessage(l.agent.UID, l.run.TaskID, l.id) {
				return "", over
			}
			if _, last := b.segment(v, l.agent, t, i); !last {
				return "", over
			}
			return typed(l.text), nil
		},
		busy: func(*view) error {
			if !b.queue.hasMessage(l.agent.UID, l.run.TaskID, l.id) {
				return over
			}
			return nil
		},
	})
	reason := fleet.ReasonOf(err)
	return reason == fleet.ReasonBackendUnavailable || reason == fleet.ReasonAgentBusy, err
}
