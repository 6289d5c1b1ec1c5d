package coder

import "github.com/coder/coder/v2/codersdk"

import (
	"context"
	"time"

	"fleet/internal/runner/agentapi"
)

// SetWait replaces the function that waits between polls.
func (b *Place) SetWait(wait func(context.Context, time.Duration) error) { b.wait = wait }

// SetBound makes runners of workspaces use JSON and streams of limited length.
func (b *Place) SetBound(d time.Duration) { b.bound = d }

// ForgetTemplates makes the cached list of templates count as outdated.
func (b *Place) ForgetTemplates() {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.at = time.Time{}
}

// Waiting returns how many messages are waiting for the run.
func (b *Place) Waiting(taskID string) int { return b.screens.Waiting(taskID) }

// ForgetRuns clears the state of runs, as if another process took over.
func (b *Place) ForgetRuns() {
	b.screens = agentapi.New(agentapi.Config{Now: b.config.Now, Wait: func(ctx context.Context, d time.Duration) error { return b.wait(ctx, d) }})
}

// Groups returns the groups to which the project of the template is restricted.
func (b *Place) Groups(t codersdk.Template) []string {
	name, named := b.configured(t)
	return b.groups(t, name, named)
}
