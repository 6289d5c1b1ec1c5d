package agentapi

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// Interrupt implements fleet.Runner. It sends the key that stops an agent in its terminal: Esc, or Ctrl-C if kill is
// set. It sends nothing if the run has ended. If the agent cannot be reached, Interrupt also returns nil; the caller can then
// stop the agent's workspace.
func (w runner) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	runners, a := w.runners, w.agent
	workspace, err := w.findWorkspace(ctx)
	if err != nil || workspace == nil {
		return err
	}
	api, err := runners.reachableClient(a, workspace)
	if err != nil {
		return nil //nolint:nilerr // the run ends with its workspace
	}
	t := runners.transcripts.getOrCreate(r.TaskID)
	if _, ended := t.endOutcome(); ended {
		return nil
	}
	for failures := 0; ; {
		v, err := api.readView(ctx)
		if err == nil {
			i := runners.locate(v, a, r, t)
			if i < 0 {
				return nil
			}
			if _, last := runners.findEnd(v, a, t, i); !last || v.status == statusStable && !t.hasPending() {
				return nil
			}
			t.markInterrupted()
			t.dropPending()
			key := keyEscape
			if kill {
				key = keyInterrupt
			}
			if err = api.send(ctx, typeRaw, key); err == nil {
				return nil
			}
		}
		var unreachable *unreachableError
		if failures++; failures >= 3 {
			if errors.As(err, &unreachable) {
				return nil
			}
			return notAcceptedError(a, err)
		}
		if err := runners.waitAfterFailure(ctx, a, workspace, err); err != nil {
			if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
				return nil
			}
			return err
		}
	}
}
