package agentapi

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// probeTime is how long AgentAPI may take to say that it is there.
const probeTime = 2 * time.Second

// ErrNoAnswer is the error of Ready when AgentAPI does not answer.
var ErrNoAnswer = errors.New("AgentAPI does not answer")

// Prompt is what an agent may have been started with.
type Prompt struct {
	Text string
	Task bool // the agent's first task, which it begins by itself
}

// Ready reports whether the agent can be given tasks: it rests, or works on something that it was given. An agent that was ready
// before, in the same build of its workspace, is ready as long as AgentAPI is there. started returns what the agent may
// have been started with. Other errors than ErrNoAnswer and a RefusalError are for Workspace.Translate.
func (all *Runners) Ready(ctx context.Context, f Facts, before bool, started func() Prompt) (bool, error) {
	if f.URL == nil {
		return false, ErrNoAnswer
	}
	x := all.client(f)
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	ready := before
	status, _, err := x.state(bounded)
	if err == nil && status != statusStable && !ready {
		var v *view
		if v, err = x.look(bounded); err == nil {
			p := started()
			ready = v.given(p.Text) || p.Task && v.showPrompt(p.Text)
		}
	}
	var unreachable *unreachableError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return status == statusStable || ready, nil
	case ready && errors.Is(err, context.DeadlineExceeded):
		return true, nil // it does not answer while it takes a message; the host notices when it is stuck
	case errors.As(err, &unreachable), errors.Is(err, context.DeadlineExceeded):
		return false, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return false, err
}
