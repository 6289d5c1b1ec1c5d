package agentapi

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// probeTimeout limits how long AgentAPI may take to answer a probe.
const probeTimeout = 2 * time.Second

// ErrNoAnswer means that AgentAPI does not answer.
var ErrNoAnswer = errors.New("AgentAPI does not answer")

// Prompt is a text with which an agent may have been started.
type Prompt struct {
	Text   string
	IsTask bool // Text is the agent's first task, which the agent starts by itself
}

// Ready reports whether the agent has started, so that it can accept tasks. It has if it is idle, or if it works on a message
// or on its first task. wasReady says that the agent was ready before, in the same build of its workspace; it is then ready while
// AgentAPI answers or is busy. startPrompt returns the text with which the agent may have been started. The caller must pass
// errors other than ErrNoAnswer and RefusalError to Workspace.Translate.
func (runners *Runners) Ready(ctx context.Context, f Facts, wasReady bool, startPrompt func() Prompt) (bool, error) {
	if f.URL == nil {
		return false, ErrNoAnswer
	}
	api := runners.client(f)
	timeoutCtx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ready := wasReady
	status, _, err := api.readStatus(timeoutCtx)
	if err == nil && status != statusStable && !ready {
		var v *view
		if v, err = api.readView(timeoutCtx); err == nil {
			p := startPrompt()
			ready = v.hasOtherMessage(p.Text) || p.IsTask && v.findOrAddPrompt(p.Text)
		}
	}
	var unreachable *unreachableError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return status == statusStable || ready, nil
	case ready && errors.Is(err, context.DeadlineExceeded):
		return true, nil // AgentAPI does not answer while it accepts a message; if AgentAPI hangs, the host notices
	case errors.As(err, &unreachable), errors.Is(err, context.DeadlineExceeded):
		return false, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return false, err
}
