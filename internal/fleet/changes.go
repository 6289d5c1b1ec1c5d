package fleet

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"
)

// MaxChangedFiles is how many files Changes.List has at most.
const MaxChangedFiles = 1000

// Changes is what a task changed in the working tree of its agent.
type Changes struct {
	Base    string `json:"base"`   // commit that the task began at
	Commit  string `json:"commit"` // has the tree as it was when the task ended, with what the agent did not commit
	Ref     string `json:"ref"`    // keeps Commit in the repository
	Branch  string `json:"branch"` // that the agent was on; empty: none
	Commits int    `json:"commits"`
	Dirty   bool   `json:"dirty"`  // Commit has changes that the agent did not commit
	Pushed  bool   `json:"pushed"` // a branch of a remote has all of the agent's commits

	// Files counts the files that differ between Base and Commit; List has the first MaxChangedFiles of them, by path.
	Files      int          `json:"files"`
	Insertions int          `json:"insertions"`
	Deletions  int          `json:"deletions"`
	List       []FileChange `json:"list,omitempty"`

	// LeftOut names files that are not in Commit, because they are too large, or are repositories of their own.
	LeftOut []string `json:"left_out,omitempty"`

	At time.Time `json:"at"` // when the tree was looked at
	// Problem says why the changes are not known; all else is zero then.
	Problem string `json:"problem,omitempty"`
}

// FileChange is one changed file.
type FileChange struct {
	Path       string         `json:"path"`
	From       string         `json:"from,omitempty"` // its path before, of a renamed file
	Kind       FileChangeKind `json:"kind"`
	Insertions int            `json:"insertions,omitempty"`
	Deletions  int            `json:"deletions,omitempty"`
	Binary     bool           `json:"binary,omitempty"` // its lines are not counted
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

// keepChanges has the agent's runner keep what the task changed, and records it, unless that was done before. A runner
// that fails is not asked again: the end of the task does not wait for it, and the record says what is missing.
func (w *worker) keepChanges(ctx context.Context, a *Agent, t *Task) error {
	if !w.host(a).Traits().Changes || t.Dispatched.IsZero() || a.WorkspaceID == "" {
		return nil
	}
	var known *Changes
	if err := w.store.View(ctx, func(tx ReadTx) (err error) {
		known, err = tx.Changes(t.ID)
		return err
	}); err != nil || known != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	c, err := w.host(a).Connect(*a).Changes(limited, t.run(true))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		w.log.WarnContext(ctx, "changes of a task could not be kept", slog.String("task", t.ID), slog.Any("error", err))
		c = &Changes{Problem: Words(err)}
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

// keepLastChanges keeps the changes of the agent's newest task before its workspace is deleted. A run that is still
// under way is ended first.
func (w *worker) keepLastChanges(ctx context.Context, a *Agent) error {
	if !w.host(a).Traits().Changes || a.WorkspaceID == "" {
		return nil
	}
	var last []*Task
	if err := w.store.View(ctx, func(tx ReadTx) (err error) {
		last, err = tx.LastTasks([]string{a.UID})
		return err
	}); err != nil || len(last) == 0 {
		return err
	}
	w.endRun(ctx, a, last[0])
	return w.keepChanges(ctx, a, last[0])
}

// endRun kills the run of the task and waits until it has ended, as long as a stop may take. What it cannot end, the
// deletion of its workspace does.
func (w *worker) endRun(ctx context.Context, a *Agent, t *Task) {
	if t.Dispatched.IsZero() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, w.grace(a)+deadlineGrace)
	defer cancel()
	r := w.host(a).Connect(*a)
	err := r.Interrupt(limited, t.run(true), true)
	if err == nil {
		_, err = r.Follow(limited, t.run(true), t.Cursor, func(Output) error { return nil })
	}
	if err != nil && ReasonOf(err) != ReasonTaskNotFound && ctx.Err() == nil {
		w.log.WarnContext(ctx, "a run did not end before the deletion of its agent", slog.String("task", t.ID), slog.Any("error", err))
	}
}

// Sizes of a part of a patch, in bytes.
const (
	DefaultPatchSize = 64 << 10
	MaxPatchSize     = 1 << 20
)

// TaskChanges returns what the task changed. CHANGES_NOT_FOUND when that is not known, for example because it runs.
func (s *Service) TaskChanges(ctx context.Context, id string) (*Changes, error) {
	c, _, err := s.taskChanges(ctx, id)
	return c, err
}

// PatchRequest says which part of a task's patch a caller wants.
type PatchRequest struct {
	TaskID, Path  string // Path "" is all files
	Offset, Limit int    // Limit 0 is DefaultPatchSize
}

// TaskPatch returns the part of the patch, which ends between characters as far as it is UTF-8, and whether there is more.
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
	text, more, err = s.host(a).Connect(*a).Patch(ctx, *c, r.Path, int64(r.Offset), max(limit, utf8.UTFMax))
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
		return nil, nil, Invalid(ReasonInvalidArgument, "task_id", "task_id is required: start_agent_task and list_tasks give ids")
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
			if t.Active() {
				why = "it has not ended: wait_tasks waits for that"
			}
			return Errorf(ReasonChangesNotFound, "what the task %s changed is not known: %s", t.ID, why).With("task_id", t.ID)
		}
		a, err = tx.Agent(t.AgentUID)
		return err
	})
	return c, a, err
}
