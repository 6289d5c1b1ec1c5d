package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// remainsText describes for people what is kept of the agent and what may be lost. kept is what the place says that it has
// kept.
func remainsText(r *fleet.Remains, agent, kept string) string {
	texts := []string{kept}
	if r != nil && r.Size > 0 {
		texts = append(texts, fmt.Sprintf("what it had not pushed is kept: fleet agent rescue %s", agent))
	}
	if r != nil && r.Lost != "" {
		texts = append(texts, "may be lost: "+r.Lost)
	}
	return strings.Join(slices.DeleteFunc(texts, fleet.IsBlank), "; ")
}

// saveWork stores a bundle of the agent's work that exists nowhere else, before the workspace is deleted. If that fails, it
// records what may be lost; the workspace is deleted anyway.
func (w *worker) saveWork(ctx context.Context, a *fleet.Agent) error {
	t := w.places.Of(a).Facts
	if !t.Bundles || t.KeepsWork || a.WorkspaceID == "" {
		return nil
	}
	var known *fleet.Remains
	var last []*fleet.Task
	var changes *fleet.Changes
	if err := w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if known, err = tx.Remains(a.UID); err != nil {
			return err
		}
		if last, err = tx.LastTasks([]string{a.UID}); err != nil || len(last) == 0 {
			return err
		}
		changes, err = tx.Changes(last[0].ID)
		return err
	}); err != nil || known != nil && known.Lost == "" || len(last) == 0 {
		return err // stored before a crash, or the agent never had a task
	}
	content, err := w.places.Bundle(ctx, a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := &fleet.Remains{KeptAt: w.now()}
	if err != nil {
		w.log.WarnContext(ctx, "the work of an agent could not be kept", slog.String("agent", a.Name), slog.Any("error", err))
		content, r.Lost = nil, w.lossReason(err)+unpushedText(changes)
	}
	put := func(content []byte) error {
		return w.store.Update(ctx, func(tx fleet.Tx) error { return tx.PutRemains(a.UID, r, content) })
	}
	err = put(content)
	if errors.Is(err, fleet.ErrStoreFull) {
		r.Lost = "the disk of the server's data is full, so what the agent had not pushed is not kept" + unpushedText(changes)
		err = put(nil)
	}
	return err
}

// lossReason describes for people what may be lost with a workspace if its bundle failed with the error.
func (r *Reconciler) lossReason(err error) string {
	switch {
	case errors.Is(err, state.ErrBundleTooLarge):
		return fmt.Sprintf("what the agent had not pushed is more than %d bytes and is not kept", r.cfg.MaxBundle)
	case fleet.ReasonOf(err) == fleet.ReasonUnimplemented:
		return "Fleet cannot look into its workspace, so what the agent had not pushed is not kept"
	}
	return "its workspace could not be reached (" + fleet.PublicMessage(err) + "), so what the agent had not pushed is not kept"
}

// unpushedText describes the work that is lost, as far as it is known, as the end of a sentence. It may be empty.
func unpushedText(c *fleet.Changes) string {
	switch {
	case c == nil || c.Problem != "":
		return ""
	case c.Dirty && !c.Pushed:
		return fmt.Sprintf(": its last task left commits on %q that no remote has, and changes that it did not commit", c.Branch)
	case c.Dirty:
		return fmt.Sprintf(": its last task left changes on %q that it did not commit", c.Branch)
	case !c.Pushed:
		return fmt.Sprintf(": its last task left commits on %q that no remote has", c.Branch)
	}
	return "; its last task had pushed everything"
}
