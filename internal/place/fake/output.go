package fake

import (
	"context"

	"fleet/internal/fleet"
)

// Output returns a page of the run's output. A negative offset counts from the end.
func (w runner) Output(ctx context.Context, r fleet.Run, offset int64, limit int) (p fleet.OutputPage, err error) {
	b := w.place
	err = b.call(ctx, Call{Method: Output, Agent: w.agent, TaskID: r.TaskID}, func() error {
		if !b.config.Traits.Output {
			return fleet.Errorf(fleet.ReasonUnimplemented, "the output of agent %q is not kept", w.agent.Name)
		}
		found, err := b.findRun(w.agent, r)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if found.workspace.State == fleet.StateDeleted {
			return fleet.Errorf(fleet.ReasonOutputNotFound, "the output of the task %s was deleted with its agent", r.TaskID)
		}
		var all []byte
		for _, out := range found.outputs {
			all = append(append(all, out.Text...), '\n')
		}
		p.Size = int64(len(all))
		if offset < 0 {
			offset = max(0, p.Size+offset)
		}
		p.Offset = min(offset, p.Size)
		p.Data = all[p.Offset:min(p.Size, p.Offset+int64(limit))]
		return nil
	})
	return p, err
}
