package sessions

import (
	"sync"
	"time"
)

// listeners counts, for each turn, the calls that wait for its answer. After the last call has given up, it runs a function
// that stops the turn.
type listeners struct {
	mu        sync.Mutex
	closed    bool
	count     map[string]int            // by task
	scheduled map[string]*scheduledStop // for turns that nobody waits for, by task
	running   sync.WaitGroup            // counts the stop functions that are running
}

func newListeners() *listeners {
	return &listeners{count: map[string]int{}, scheduled: map[string]*scheduledStop{}}
}

// join counts a call that waits for the turn, and cancels the stop that leave has scheduled for the turn, if there is one.
func (l *listeners) join(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[task]++
	if c := l.scheduled[task]; c != nil {
		c.timer.Stop()
		delete(l.scheduled, task)
	}
}

// leave undoes join, and reports whether the call was the last one that waited for the turn. If it was the last and stop is
// not nil, leave runs stop in the background after the grace period. A join within this time prevents that.
func (l *listeners) leave(task string, grace time.Duration, stop func()) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[task]--; l.count[task] > 0 {
		return false
	}
	delete(l.count, task)
	if stop == nil || l.closed {
		return true
	}
	c := &scheduledStop{}
	c.timer = time.AfterFunc(grace, func() {
		if l.claim(task, c) {
			defer l.running.Done()
			stop()
		}
	})
	l.scheduled[task] = c
	return true
}

// scheduledStop is a stop function that leave has scheduled. Its address identifies it.
type scheduledStop struct{ timer *time.Timer }

// claim reports whether the scheduled stop is still due. If so, it removes the stop and adds it to l.running, so that close
// waits for it.
func (l *listeners) claim(task string, c *scheduledStop) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.scheduled[task] != c {
		return false
	}
	delete(l.scheduled, task)
	l.running.Add(1)
	return true
}

// close cancels the scheduled stops, waits for those that are running, and prevents new ones.
func (l *listeners) close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.scheduled {
		c.timer.Stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}
