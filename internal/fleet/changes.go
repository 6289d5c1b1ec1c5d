package fleet

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"
)

// MaxChangedFiles is the maximum length of Changes.List.
const MaxChangedFiles = 1000

// Changes describes what a task changed in the working tree of its agent.
type Changes struct {
	Base    string `json:"base"`   // commit at which the task began
	Commit  string `json:"commit"` // contains the tree at the end of the task, including uncommitted changes
	Ref     string `json:"ref"`    // keeps Commit in the repository
	Branch  string `json:"branch"` // the agent's branch; empty if it was on none
	Commits int    `json:"commits"`
	Dirty   bool   `json:"dirty"`  // Commit contains uncommitted changes
	Pushed  bool   `json:"pushed"` // a branch of a remote contains all of the agent's commits

	// Files counts the files that differ between Base and Commit; List has the first MaxChangedFiles, by path.
	Files      int          `json:"files"`
	Insertions int          `json:"insertions"`
	Deletions  int          `json:"deletions"`
	List       []FileChange `json:"list,omitempty"`

	// LeftOut names files missing from Commit because they are too large or are repositories of their own.
	LeftOut []string `json:"left_out,omitempty"`

	At time.Time `json:"at"` // when the tree was examined
	// Problem says why the changes are not known; everything else is zero then.
	Problem string `json:"problem,omitempty"`
	// Later says that the problem may be over later, such as a workspace that does not run: Fleet asks again before the
	// agent's next task and before its deletion.
	Later bool `json:"later,omitempty"`
}

// FileChange is one changed file.
type FileChange struct {
	Path       string         `json:"path"`
	From       string         `json:"from,omitempty"` // the previous path of a renamed file
	Kind       FileChangeKind `json:"kind"`
	Insertions int            `json:"insertions,omitempty"`
	Deletions  int            `json:"deletions,omitempty"`
	Binary     bool           `json:"binary,omitempty"` // lines are not counted
}

// FileChangeKind says what happened to a file.
type FileChangeKind string

// The kinds of changes of files.
const (
	FileAdded    FileChangeKind = "added"
	FileModified FileChangeKind = "modified"
	FileDeleted  FileChangeKind = "deleted"
	FileRenamed  FileChangeKind = "renamed"
)

// keepChanges lets the agent's runner save what the task changed, and records it, unless that was done before. If the
// runner fails, the end of the task does not wait for it; the record then contains the problem. If again is set, the
// record of an earlier try is replaced.
func (w *worker) keepChanges(ctx context.Context, a *Agent, t *Task, again bool) error {
	if !w.places.of(a).Traits().Changes || t.Dispatched.IsZero() || a.WorkspaceID == "" || t.Terminal {
		return nil
	}
	var known *Changes
	if err := w.store.View(ctx, func(tx ReadTx) (err error) {
		known, err = tx.Changes(t.ID)
		return err
	}); err != nil || known != nil && !again && !known.Later {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	c, err := w.places.of(a).Connect(*a).Changes(limited, t.firstRun()) // so that the changes cover all tries
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		w.log.WarnContext(ctx, "changes of a task could not be kept", slog.String("task", t.ID), slog.Any("error", err))
		reason := ReasonOf(err)
		c = &Changes{Problem: PublicMessage(err), Later: reason == ReasonAgentOffline || reason == ReasonBackendUnavailable}
	case c == nil:
		return nil
	}
	c.At = w.now()
	return w.store.Update(ctx, func(tx Tx) error {
		if t, err := tx.Task(t.ID); err != nil || t == nil {
			return err
		}
		return tx.PutChanges(t.ID, c)
	})
}

// keepOwedChanges saves the changes of the agent's task before this one if they could not be saved when that ended: the new
// task would count them as its own.
func (w *worker) keepOwedChanges(ctx context.Context, a *Agent, t *Task) error {
	if !w.places.of(a).Traits().Changes {
		return nil
	}
	var owed *Task
	if err := w.store.View(ctx, func(tx ReadTx) error {
		tasks, _, err := tx.Tasks(a.UID, 2, 0)
		for _, before := range tasks {
			if err != nil || before.ID == t.ID {
				continue
			}
			var c *Changes
			if c, err = tx.Changes(before.ID); c != nil && c.Later {
				owed = before
			}
		}
		return err
	}); err != nil || owed == nil {
		return err
	}
	return w.keepChanges(ctx, a, owed, false)
}

// keepLastChanges saves the changes of the agent's newest task before its workspace is deleted. It first ends a run
// that is still under way.
func (w *worker) keepLastChanges(ctx context.Context, a *Agent) error {
	if !w.places.of(a).Traits().Changes || a.WorkspaceID == "" {
		return nil
	}
	var last []*Task
	if err := w.store.View(ctx, func(tx ReadTx) (err error) {
		last, err = tx.LastTasks([]string{a.UID})
		return err
	}); err != nil || len(last) == 0 || last[0].Terminal { // nobody can tell what a task changed that is read from a terminal
		return err
	}
	w.endRun(ctx, a, last[0])
	return w.keepChanges(ctx, a, last[0], false)
}

// endRun kills the run of the task and waits until it has ended, at most as long as a stop may take. If the run
// survives, deleting its workspace ends it.
func (w *worker) endRun(ctx context.Context, a *Agent, t *Task) {
	if t.Dispatched.IsZero() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, w.places.of(a).grace+deadlineGrace)
	defer cancel()
	r := w.places.of(a).Connect(*a)
	err := r.Interrupt(limited, t.run(true), true)
	if err == nil {
		_, err = r.Follow(limited, t.run(true), t.Cursor, func(Output) error { return nil })
	}
	if err != nil && ReasonOf(err) != ReasonTaskNotFound && ctx.Err() == nil {
		w.log.WarnContext(ctx, "a run did not end before the deletion of its agent", slog.String("task", t.ID), slog.Any("error", err))
	}
}

// These are sizes of a page of a patch, in bytes.
const (
	DefaultPatchSize = 64 << 10
	MaxPatchSize     = 1 << 20
)

// TaskChanges returns what the task changed. CHANGES_NOT_FOUND if that is not known, for example because the task runs.
func (s *Service) TaskChanges(ctx context.Context, id string) (*Changes, error) {
	c, _, err := s.taskChanges(ctx, id)
	return c, err
}

// PatchRequest selects a part of a task's patch.
type PatchRequest struct {
	TaskID, Path  string // Path "" means all files
	Offset, Limit int    // Limit 0 means DefaultPatchSize
}

// TaskPatch returns a part of the patch, and whether there is more. UTF-8 characters are not split.
func (s *Service) TaskPatch(ctx context.Context, r PatchRequest) (c *Changes, text []byte, more bool, err error) {
	c, a, err := s.taskChanges(ctx, r.TaskID)
	if err != nil {
		return nil, nil, false, err
	}
	if c.Problem != "" {
		return nil, nil, false, Errorf(ReasonChangesNotFound, "%s", c.Problem).With("task_id", shorten(r.TaskID, 60))
	}
	limit := min(r.Limit, MaxPatchSize)
	if limit == 0 {
		limit = DefaultPatchSize
	}
	text, more, err = s.places.of(a).Connect(*a).Patch(ctx, *c, r.Path, int64(r.Offset), max(limit, utf8.UTFMax))
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == ReasonChangesNotFound {
		err = e.With("task_id", shorten(r.TaskID, 60))
	}
	if err != nil || !more {
		return c, text, more, err
	}
	for i := len(text) - 1; i > 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				text = text[:i]
			}
			break
		}
	}
	return c, text, true, nil
}

func (s *Service) taskChanges(ctx context.Context, id string) (c *Changes, a *Agent, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	if id == "" {
		return nil, nil, Invalid(ReasonInvalidArgument, "task_id", "task_id is required").Next("{start_agent_task} and {list_tasks} give ids")
	}
	err = s.store.View(ctx, func(tx ReadTx) error {
		t, err := s.task(tx, p, id)
		if err != nil {
			return err
		}
		if c, err = tx.Changes(t.ID); err != nil {
			return err
		}
		if c == nil {
			why := "its agent does not work in a repository that Fleet can look at"
			switch {
			case t.Terminal:
				why = "its agent was read from its terminal"
			case t.Active():
				why = "it has not ended: wait_tasks waits for that"
			}
			return Errorf(ReasonChangesNotFound, "what the task %s changed is not known: %s", t.ID, why).With("task_id", t.ID)
		}
		a, err = tx.Agent(t.AgentUID)
		return err
	})
	return c, a, err
}
