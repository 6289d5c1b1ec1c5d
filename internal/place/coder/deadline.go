package coder

import (
	"context"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// warning returns an output that shows a warning of Fleet in a run.
func warning(words string) fleet.Output {
	return fleet.Output{Step: true, Text: words, Data: (&fleet.Step{Type: fleet.StepWarning, Message: words}).JSON()}
}

const (
	keepEvery = 5 * time.Minute  // how often the deadline of a workspace is checked during a task
	keepLeft  = 45 * time.Minute // the deadline is extended if less time than this is left
	keepAhead = 90 * time.Minute // the time from now to which it is extended
)

// extendDeadline extends the deadline of a workspace again and again, until ctx is done or the workspace does not exist
// any more. Without it, Coder would stop the workspace during a task, because requests to an app do not count as
// activity. extendDeadline calls warn for the first failure only.
func (p *Place) extendDeadline(ctx context.Context, a fleet.Agent, at workspace, warn func(string)) {
	for warned := false; ; {
		if words := p.extend(ctx, &at); words != "" && !warned && ctx.Err() == nil {
			warned = true
			p.config.Logger.WarnContext(ctx, "workspace deadline not extended", "agent", a.Name, "reason", words)
			warn(words)
		}
		if p.wait(ctx, keepEvery) != nil {
			return
		}
		if there, err := at.refresh(ctx); err == nil && !there {
			return
		}
	}
}

// extend extends the deadline of a workspace if less than keepLeft is left. If it cannot extend the deadline, it
// returns the reason for users, else "".
func (p *Place) extend(ctx context.Context, at *workspace) string {
	build, now := at.ws.LatestBuild, p.config.Now().Add(p.throttle.ahead())
	if !build.Deadline.Valid || build.Deadline.Time.Sub(now) > keepLeft || !build.Deadline.Time.After(now) {
		return ""
	}
	stops := build.Deadline.Time.UTC().Format(time.RFC3339)
	until := now.Add(keepAhead)
	if last := build.MaxDeadline; last.Valid && last.Time.Before(until) {
		until = last.Time
	}
	if !until.After(build.Deadline.Time) {
		return "Coder stops the workspace at " + stops + ", which is the latest time that its template allows; a task that still runs then ends"
	}
	_, err := ask(ctx, "extending the deadline of the workspace", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.account.sdk.PutExtendWorkspace(ctx, at.ws.ID, codersdk.PutExtendWorkspaceRequest{Deadline: until})
	})
	if err != nil {
		return "Coder stops the workspace at " + stops + ": " + fleet.PublicMessage(err)
	}
	at.ws.LatestBuild.Deadline.Time = until
	return ""
}
