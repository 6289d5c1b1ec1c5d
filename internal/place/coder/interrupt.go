package coder

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// Interrupt implements fleet.Runner: with the key that stops an agent in its terminal, Esc, or by force Ctrl-C. An
// agent that cannot be reached is for the caller to end, by stopping its workspace.
func (w runner) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	b, a := w.place, w.agent
	at, err := b.find(ctx, a)
	if err != nil || at == nil {
		return err
	}
	if at.hasRunner() {
		next, err := b.remote(a, at)
		if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
			return nil // a workspace that does not run has ended its runs
		}
		if err != nil {
			return err
		}
		return next.Interrupt(ctx, r, kill)
	}
	api, err := b.reach(a, at)
	if err != nil {
		return nil //nolint:nilerr // a workspace that does not run has ended its runs
	}
	t := b.runs.of(r.TaskID)
	if _, ended := t.result(); ended {
		return nil
	}
	for misses := 0; ; {
		v, err := api.look(ctx)
		if err == nil {
			i := b.locate(v, a, r, t)
			if i < 0 {
				return nil
			}
			if _, last := b.segment(v, a, t, i); !last || v.status == statusStable && !t.waits() {
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
		if err := b.missed(ctx, a, at, err); err != nil {
			if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
				return nil
			}
			return err
		}
	}
}
