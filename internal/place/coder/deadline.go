package coder

import (
	"context"
	"encoding/json"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// warning is an output about the run that is not the agent's own.
func warning(words string) fleet.Output {
	data, _ := json.Marshal(map[string]string{"type": "warning", "message": words}) // strings always can be
	return fleet.Output{Step: true, Text: words, Data: data}
}

const (
	keepEvery = 5 * time.Minute  // how often the deadline of a workspace is looked at while a task runs in it
	keepLeft  = 45 * time.Minute // how little time must be left for it to be extended
	keepAhead = 90 * time.Minute // how long it is extended to
)

// keepUp extends the deadline of a workspace until ctx is done: requests to an app do not count as activity, so Coder would
// stop the workspace below a task. warn gets what it could not do, once.
func (b *Place) keepUp(ctx context.Context, a fleet.Agent, at place, warn func(string)) {
	for warned := false; ; {
		if words := b.extend(ctx, &at); words != "" && !warned && ctx.Err() == nil {
			warned = true
			b.config.Logger.WarnContext(ctx, "workspace deadline not extended", "agent", a.Name, "reason", words)
			warn(words)
		}
		if b.wait(ctx, keepEvery) != nil {
			return
		}
		if there, err := at.refresh(ctx); err == nil && !there {
			return
		}
	}
}

// extend extends the deadline of a workspace that is to be stopped soon. It returns in words why it could not.
func (b *Place) extend(ctx context.Context, at *place) string {
	build, now := at.ws.LatestBuild, b.config.Now().Add(b.gate.ahead())
	if !build.Deadline.Valid || build.Deadline.Time.Sub(now) > keepLeft || !build.Deadline.Time.After(now) {
		return ""
	}
	stops := build.Deadline.Time.UTC().Format(time.RFC3339)
	until := now.Add(keepAhead)
	if last := build.MaxDeadline; last.Valid && last.Time.Before(until) {
		until = last.Time
	}
	if !until.After(build.Deadline.Time) {
		return "Coder stops the workspace at " + stops + ", the latest that its template allows; a task that runs then ends"
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
