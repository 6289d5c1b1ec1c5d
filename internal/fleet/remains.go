package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// DefaultMaxBundle is the largest bundle of an agent's work that is kept, in bytes, unless Config.MaxBundle says.
const DefaultMaxBundle = 64 << 20

// bundleTime is how long a runner may take over a bundle.
const bundleTime = 5 * time.Minute

// Remains is what is kept of an agent when it is deleted, beside its tasks.
type Remains struct {
	KeptAt time.Time
	Size   int    // of the bundle, in bytes; 0: there is none
	Lost   string // what may be lost with the workspace, in words; empty: nothing
}

// words says what is kept of the agent and what may be lost, after what its place says that it has kept.
func (r *Remains) words(agent, kept string) string {
	texts := []string{kept}
	if r != nil && r.Size > 0 {
		texts = append(texts, fmt.Sprintf("what it had not pushed is kept: fleet agent rescue %s", agent))
	}
	if r != nil && r.Lost != "" {
		texts = append(texts, "may be lost: "+r.Lost)
	}
	return strings.Join(slices.DeleteFunc(texts, isBlank), "; ")
}

// errBundleTooLarge is the error of a bundle that is larger than Config.MaxBundle.
var errBundleTooLarge = errors.New("the bundle is too large")

// bundleBuffer takes at most so many bytes.
type bundleBuffer struct {
	bytes []byte
	most  int
}

func (b *bundleBuffer) Write(p []byte) (int, error) {
	if len(b.bytes)+len(p) > b.most {
		return 0, errBundleTooLarge
	}
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

// bundle has the agent's runner write a bundle of its work.
func (ps *Places) bundle(ctx context.Context, a *Agent) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, bundleTime)
	defer cancel()
	b := bundleBuffer{most: ps.cfg.MaxBundle}
	err := ps.of(a).Connect(*a).Bundle(limited, &b)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = Errorf(ReasonBackendUnavailable, "its runner did not answer within %s", bundleTime).WithCause(err)
	}
	return b.bytes, err
}

// keepWork keeps what the agent has made and is nowhere else, before its workspace is deleted, where it would be lost with
// that. What cannot be had does not keep the workspace from its deletion; what may be lost is recorded.
func (w *worker) keepWork(ctx context.Context, a *Agent) error {
	t := w.places.of(a).traits
	if !t.Bundles || t.KeepsWork || a.WorkspaceID == "" {
		return nil
	}
	var known *Remains
	var last []*Task
	var changes *Changes
	if err := w.store.View(ctx, func(tx ReadTx) (err error) {
		if known, err = tx.Remains(a.UID); err != nil {
			return err
		}
		if last, err = tx.LastTasks([]string{a.UID}); err != nil || len(last) == 0 {
			return err
		}
		changes, err = tx.Changes(last[0].ID)
		return err
	}); err != nil || known != nil && known.Lost == "" || len(last) == 0 {
		return err // kept before a crash, or nobody has worked there
	}
	content, err := w.places.bundle(ctx, a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := &Remains{KeptAt: w.now()}
	if err != nil {
		w.log.WarnContext(ctx, "the work of an agent could not be kept", slog.String("agent", a.Name), slog.Any("error", err))
		content, r.Lost = nil, w.lost(err)+changes.unpushed()
	}
	put := func(content []byte) error {
		return w.store.Update(ctx, func(tx Tx) error { return tx.PutRemains(a.UID, r, content) })
	}
	err = put(content)
	if errors.Is(err, ErrStoreFull) {
		r.Lost = "the disk of the server's data is full, so what the agent had not pushed is not kept" + changes.unpushed()
		err = put(nil)
	}
	return err
}

// lost says what may be lost with a workspace whose bundle met the error.
func (r *Reconciler) lost(err error) string {
	switch {
	case errors.Is(err, errBundleTooLarge):
		return fmt.Sprintf("what the agent had not pushed is more than %d bytes and is not kept", r.cfg.MaxBundle)
	case ReasonOf(err) == ReasonUnimplemented:
		return "Fleet cannot look into its workspace, so what the agent had not pushed is not kept"
	}
	return "its workspace could not be reached (" + PublicMessage(err) + "), so what the agent had not pushed is not kept"
}

// unpushed says what is known of the work that is lost; it begins with a colon unless it is empty.
func (c *Changes) unpushed() string {
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

// Remains returns what is kept of the agent, which the caller was given.
func (s *Service) Remains(ctx context.Context, v *AgentView) (r Remains, err error) {
	err = s.store.View(ctx, func(tx ReadTx) error {
		known, err := tx.Remains(v.UID)
		if known != nil {
			r = *known
		}
		return err
	})
	return r, err
}

// DownloadBundle returns a git bundle of what the agent has made and is nowhere else: of one that exists as it is now, of a
// deleted one what was kept. BUNDLE_NOT_FOUND when there is nothing.
func (s *Service) DownloadBundle(ctx context.Context, ref string) (*Agent, []byte, error) {
	if ref == "" {
		return nil, nil, Invalid(ReasonInvalidArgument, "agent_name", "agent_name is required").Next("{list_agents} shows the names")
	}
	uid, err := s.everAgent(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	var a *Agent
	var content []byte
	var kept *Remains
	if err := s.store.View(ctx, func(tx ReadTx) (err error) {
		if a, err = tx.Agent(uid); err != nil || a == nil {
			return err
		}
		if kept, err = tx.Remains(uid); err == nil {
			content, err = tx.Bundle(uid)
		}
		return err
	}); err != nil {
		return nil, nil, err
	}
	if a == nil {
		return nil, nil, agentNotFound(ref)
	}
	traits := s.places.of(a).traits
	if content == nil && traits.Bundles && (a.DeletedAt.IsZero() || traits.KeepsWork) {
		content, err = s.places.bundle(ctx, a)
		if errors.Is(err, errBundleTooLarge) {
			err = Errorf(ReasonLimitReached, "the work of agent %q is more than %d bytes: push it from its workspace", a.Name, s.cfg.MaxBundle).With("limit", "max_bundle")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(content) == 0 {
		return nil, nil, noBundle(a, kept)
	}
	return a, content, nil
}

func noBundle(a *Agent, kept *Remains) *Error {
	why := "it works in no repository, or all of its work is also elsewhere"
	switch {
	case kept != nil && kept.Lost != "":
		why = kept.Lost
	case !a.DeletedAt.IsZero() && kept == nil:
		why = "nothing was kept of it, or its retention is over"
	}
	return Errorf(ReasonBundleNotFound, "agent %q has nothing to rescue: %s", a.Name, why).With("agent_name", a.Name)
}
