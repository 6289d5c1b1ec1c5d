package agentapi

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// Interrupt implements fleet.Runner. It sends the key that stops an agent in its terminal: Esc, or Ctrl-C with kill
// set. If the agent cannot be reached, the caller can stop its workspace.
func (w runner) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	all, a := w.all, w.agent
	at, err := w.find(ctx)
	if err != nil || at == nil {
		return err
	}
	api, err := all.reach(a, at)
	if err != nil {
		return nil //nolint:nilerr // runs end with their workspace
	}
	t := all.runs.of(r.TaskID)
	if _, ended := t.result(); ended {
		return nil
	}
	for misses := 0; ; {
		v, err := api.look(ctx)
		if err == nil {
			i := all.locate(v, a, r, t)
			if i < 0 {
				return nil
			}
			if _, last := all.segment(v, a, t, i); !last || v.status == statusStable && !t.waits() {
				return nil
			}
			t.interrupt()
			t.drop()
			key := keyEscape
			if kill {
				key = keyInterrupt
			}
			if err = api.send(ctx, typeRaw, key); err == nil {
				return nil
			}
		}
		var unreachable *unreachableError
		if misses++; misses >= 3 {
			if errors.As(err, &unreachable) {
				return nil
			}
			return notTaken(a, err)
		}
		if err := all.missed(ctx, a, at, err); err != nil {
			if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
				return nil
			}
			return err
		}
	}
}
