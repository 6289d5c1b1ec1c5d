package coder

import (
	"context"
	"time"
)

// SetWait replaces how the backend waits for what tells nobody.
func (b *Place) SetWait(wait func(context.Context, time.Duration) error) { b.wait = wait }

// ForgetTemplates has the templates listed again.
func (b *Place) ForgetTemplates() {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.at = time.Time{}
}

// Waiting is how many messages wait for the run.
func (b *Place) Waiting(taskID string) int {
	t := b.runs.of(taskID)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// ForgetRuns is what another process knows of runs.
func (b *Place) ForgetRuns() {
	b.runs.mu.Lock()
	defer b.runs.mu.Unlock()
	b.runs.byTask, b.runs.order = map[string]*transcript{}, nil
}
