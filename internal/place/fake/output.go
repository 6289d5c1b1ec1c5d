package fake

import (
	"context"

	"fleet/internal/fleet"
)

// Output returns a page of the run's output. A negative offset counts from the end.
func (r runner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (page fleet.OutputPage, err error) {
	p := r.place
	err = p.call(ctx, Call{Method: Output, Agent: r.agent, TaskID: run.TaskID}, func() error {
		if !p.config.Traits.Output {
			return fleet.Errorf(fleet.ReasonUnimplemented, "the output of agent %q is not kept", r.agent.Name)
		}
		found, err := p.findRun(r.agent, run)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if found.workspace.State == fleet.StateDeleted {
			return fleet.Errorf(fleet.ReasonOutputNotFound, "the output of the task %s was deleted with its agent", run.TaskID)
		}
		var all []byte
		for _, out := range found.outputs {
			all = append(append(all, out.Text...), '\n')
		}
		page.Size = int64(len(all))
		if offset < 0 {
			offset = max(0, page.Size+offset)
		}
		page.Offset = min(offset, page.Size)
		page.Data = all[page.Offset:min(page.Size, page.Offset+int64(limit))]
		return nil
	})
	return page, err
}
