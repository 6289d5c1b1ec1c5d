package coder

import (
	"context"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

const (
	deadlineCheckInterval = 5 * time.Minute  // how often the deadline of a workspace is checked during a task
	minDeadlineLeft       = 45 * time.Minute // the deadline is extended if at most this time is left
	deadlineAhead         = 90 * time.Minute // the extended deadline is this far ahead
)

// keepExtendingDeadline extends the deadline of a workspace again and again, until ctx is done or the workspace no longer
// exists. Otherwise Coder would stop the workspace during a task, because requests to an app do not count as activity. It calls warn
// for the first failure only.
func (p *Place) keepExtendingDeadline(ctx context.Context, a fleet.Agent, w workspace, warn func(string)) {
	for warned := false; ; {
		if problem := p.extendDeadline(ctx, &w); problem != "" && !warned && ctx.Err() == nil {
			warned = true
			p.config.Logger.WarnContext(ctx, "workspace deadline not extended", "agent", a.Name, "reason", problem)
			warn(problem)
		}
		if p.sleep(ctx, deadlineCheckInterval) != nil {
			return
		}
		if exists, err := w.refresh(ctx); err == nil && !exists {
			return
		}
	}
}

// extendDeadline extends the deadline of a workspace if at most minDeadlineLeft is left. It leaves a deadline that has passed. If it
// cannot extend the deadline, it returns the reason, as a text for users; otherwise it returns "".
func (p *Place) extendDeadline(ctx context.Context, w *workspace) string {
	build, now := w.ws.LatestBuild, p.config.Now().Add(p.throttle.clockSkew())
	if !build.Deadline.Valid || build.Deadline.Time.Sub(now) > minDeadlineLeft || !build.Deadline.Time.After(now) {
		return ""
	}
	stopsAt := build.Deadline.Time.UTC().Format(time.RFC3339)
	until := now.Add(deadlineAhead)
	if last := build.MaxDeadline; last.Valid && last.Time.Before(until) {
		until = last.Time
	}
	if !until.After(build.Deadline.Time) {
		return "Coder stops the workspace at " + stopsAt + ", which is the latest time that its template allows; a task that still runs then ends"
	}
	_, err := callCoder(ctx, "extending the deadline of the workspace", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.account.sdk.PutExtendWorkspace(ctx, w.ws.ID, codersdk.PutExtendWorkspaceRequest{Deadline: until})
	})
	if err != nil {
		return "Coder stops the workspace at " + stopsAt + ": " + fleet.PublicMessage(err)
	}
	w.ws.LatestBuild.Deadline.Time = until
	return ""
}
