package sessions

import (
	"sync"
	"time"
)

// listeners counts, for each turn, the calls that wait for its answer.
type listeners struct {
	mu        sync.Mutex
	closed    bool
	count     map[string]int            // by task
	scheduled map[string]*scheduledCall // the scheduled calls for turns that nobody waits for, by task
	running   sync.WaitGroup            // counts the scheduled calls that are running
}

func newListeners() *listeners {
	return &listeners{count: map[string]int{}, scheduled: map[string]*scheduledCall{}}
}

// join counts a call that waits for the turn, and cancels the call that leave has scheduled for the turn, if there is one.
func (l *listeners) join(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[task]++
	if c := l.scheduled[task]; c != nil {
		c.timer.Stop()
		delete(l.scheduled, task)
	}
}

// leave undoes join, and reports whether the call was the last one that waited for the turn. If it was the last, and then is
// set, leave schedules a call of then after the grace period. A join within this time cancels the scheduled call.
func (l *listeners) leave(task string, grace time.Duration, then func()) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[task]--; l.count[task] > 0 {
		return false
	}
	delete(l.count, task)
	if then == nil || l.closed {
		return true
	}
	c := &scheduledCall{}
	c.timer = time.AfterFunc(grace, func() {
		if l.claim(task, c) {
			defer l.running.Done()
			then()
		}
	})
	l.scheduled[task] = c
	return true
}

// scheduledCall is a call that leave has scheduled. Its address identifies it.
type scheduledCall struct{ timer *time.Timer }

// claim reports whether the scheduled call is still due. If so, it removes the call and adds it to l.running, so that
// close waits for it.
func (l *listeners) claim(task string, c *scheduledCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.scheduled[task] != c {
		return false
	}
	delete(l.scheduled, task)
	l.running.Add(1)
	return true
}

// close cancels the scheduled calls and waits for those that are running.
func (l *listeners) close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.scheduled {
		c.timer.Stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}
