package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// commitPrefix precedes the id of the task in the id of the commit with the work of a run.
const commitPrefix = "tree-"

// taskOf returns the id of the task whose run made the commit.
func taskOf(commit string) string { return strings.TrimPrefix(commit, commitPrefix) }

// change records that the agent has added a line to a file and has not committed it. The text is "PATH LINE".
func (r *run) change(text string) {
	path, line, _ := strings.Cut(text, " ")
	r = r.first
	if r.changes == nil {
		r.changes, r.patch = &fleet.Changes{
			Base: "base-" + r.task.TaskID, Commit: commitPrefix + r.task.TaskID, Ref: "refs/fleet/" + r.workspace.AgentUID + "/" + r.task.TaskID,
			Branch: "fleet/" + r.workspace.Name, Dirty: true,
		}, map[string]string{}
	}
	c := r.changes
	c.Insertions++
	w := r.workspace
	if w.files == nil {
		w.files = map[string]bool{}
	}
	w.files[path], w.addedLines = true, append(w.addedLines, path+" "+line+"\n")
	i := slices.IndexFunc(c.FileChanges, func(f fleet.FileChange) bool { return f.Path == path })
	if i < 0 {
		i = len(c.FileChanges)
		c.FileChanges, c.FileCount = append(c.FileChanges, fleet.FileChange{Path: path, Kind: fleet.FileAdded}), c.FileCount+1
		r.patch[path] = fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n", path)
	}
	c.FileChanges[i].Insertions++
	r.patch[path] += "+" + line + "\n"
}

// Changes returns the changes that the run's script has made, or nil if it has made none.
func (r runner) Changes(ctx context.Context, run fleet.Run) (c *fleet.Changes, err error) {
	p := r.place
	err = p.callLocked(ctx, Call{Method: Changes, Agent: r.agent, TaskID: run.TaskID}, func() error {
		if !p.config.Traits.SupportsChanges {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q does not report changes", r.agent.Name)
		}
		found, err := p.findRun(r.agent, run)
		if err != nil {
			return err
		}
		if found.changes != nil {
			changes := *found.changes
			changes.FileChanges = slices.Clone(changes.FileChanges)
			c = &changes
		}
		return nil
	})
	return c, err
}

// Compare returns the changes of the run that made the commit, whatever base is.
func (r runner) Compare(ctx context.Context, base, commit string) (c *fleet.Changes, err error) {
	err = r.readRunOf(ctx, Compare, commit, func(found *run) {
		c = &fleet.Changes{
			Base: base, Commit: commit, FileCount: found.changes.FileCount, Insertions: found.changes.Insertions, FileChanges: slices.Clone(found.changes.FileChanges),
		}
	})
	return c, err
}

// Patch returns a page of the diff of the changes, and whether there is more. An empty path means all files.
func (r runner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (text []byte, more bool, err error) {
	err = r.readRunOf(ctx, Patch, c.Commit, func(found *run) {
		for _, f := range found.changes.FileChanges {
			if path == "" || path == f.Path {
				text = append(text, found.patch[f.Path]...)
			}
		}
		text = text[min(int(offset), len(text)):]
		if more = len(text) > limit; more {
			text = text[:limit]
		}
	})
	return text, more, err
}

// readRunOf calls read with the run that made the commit. It returns CHANGES_NOT_FOUND if there is no such run.
func (r runner) readRunOf(ctx context.Context, m Method, commit string, read func(*run)) error {
	taskID := taskOf(commit)
	return r.place.callLocked(ctx, Call{Method: m, Agent: r.agent, TaskID: taskID}, func() error {
		found := r.place.runs[taskID]
		if found == nil || found.changes == nil {
			return fleet.Errorf(fleet.ReasonChangesNotFound, "the changes of the task %s were deleted", taskID)
		}
		read(found)
		return nil
	})
}
