package coder

import (
	"context"
	"time"

	"fleet/internal/runner/agentapi"
)

// SetWait replaces how the backend waits for what tells nobody.
func (b *Place) SetWait(wait func(context.Context, time.Duration) error) { b.wait = wait }

// SetBound has runners of workspaces speak in JSON, with streams that are not longer.
func (b *Place) SetBound(d time.Duration) { b.bound = d }

// ForgetTemplates has the templates listed again.
func (b *Place) ForgetTemplates() {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.at = time.Time{}
}

// Waiting is how many messages wait for the run.
func (b *Place) Waiting(taskID string) int { return b.screens.Waiting(taskID) }

// ForgetRuns is what another process knows of runs.
func (b *Place) ForgetRuns() {
	b.screens = agentapi.New(agentapi.Config{Now: b.config.Now, Wait: func(ctx context.Context, d time.Duration) error { return b.wait(ctx, d) }})
}
