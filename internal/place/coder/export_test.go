package coder

import (
	"context"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/runner/agentapi"
)

// SetWait replaces the function that waits between polls.
func (p *Place) SetWait(wait func(context.Context, time.Duration) error) { p.sleep = wait }

// SetStreamLimit makes the clients of runners use JSON, and limits the time of a stream.
func (p *Place) SetStreamLimit(d time.Duration) { p.streamLimit = d }

// ForgetTemplates makes the cached list of templates count as outdated.
func (p *Place) ForgetTemplates() {
	p.catalog.mu.Lock()
	defer p.catalog.mu.Unlock()
	p.catalog.listedAt = time.Time{}
}

// PendingMessages returns how many messages are waiting for the run.
func (p *Place) PendingMessages(taskID string) int { return p.agentAPIRunners.PendingMessages(taskID) }

// ForgetRuns clears the state of runs, as if another process took over.
func (p *Place) ForgetRuns() {
	p.agentAPIRunners = agentapi.New(agentapi.Config{Now: p.config.Now, Wait: func(ctx context.Context, d time.Duration) error { return p.sleep(ctx, d) }})
}

// Groups returns the groups to which the project of the template is restricted.
func (p *Place) Groups(t codersdk.Template) []string {
	name, isConfigured := p.configuredName(t.Name)
	return p.groups(t, name, isConfigured)
}
