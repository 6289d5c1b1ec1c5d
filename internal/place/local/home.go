package local

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// home is the path of an agent's directory. The HOME of a confined agent is the directory "home" in it.
type home string

// maxFile is the maximum size, in bytes, of a file that is read from an agent's home. The largest file is the record,
// because it holds the agent's spec.
const maxFile = 16 << 20

func (p *Place) home(uid string) home {
	return home(filepath.Join(p.config.Dir, "agents", runner.FileName(uid)))
}

func (h home) join(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

func (h home) workDir() string { return h.join("work") }

func (h home) exists() bool {
	info, err := os.Stat(string(h))
	return err == nil && info.IsDir()
}

func (h home) tree(r *record) worktree.Tree {
	return worktree.Tree{Repository: r.Repository, Dir: h.workDir(), GitDir: h.join("git"), Branch: r.Branch, UID: r.UID}
}

// isStopped reports whether the agent is stopped. If an agent has replaced the file with something else, it is not stopped.
func (h home) isStopped() bool {
	_, err := agentfile.Read(h.join("stopped"), maxFile)
	return err == nil
}

func (h home) appendLog(format string, args ...any) {
	shim.AppendLog(h.join("log"), fmt.Sprintf(format, args...))
}

// inspect returns the agent's workspace, and its record. The record is nil if it does not exist or cannot be read.
func (h home) inspect() (fleet.Workspace, *record) {
	w := fleet.Workspace{ID: filepath.Base(string(h)), AgentUID: filepath.Base(string(h)), Location: h.workDir()}
	if !h.exists() {
		w.State = fleet.StateDeleted
		return w, nil
	}
	r, err := h.record()
	if err != nil {
		w.State, w.Reason = fleet.StateUnhealthy, "its record cannot be read: delete the agent, or restore the file "+h.join("agent.json")
		return w, nil
	}
	if r == nil {
		w.State, w.Reason = fleet.StatePending, "its directory is being created"
		return w, nil
	}
	w.ID, w.AgentUID, w.Name, w.Owner, w.Project = r.UID, r.UID, r.Name, r.Owner, r.Project
	w.Role, w.Spec, w.CreatedAt = r.Role, r.Spec, r.CreatedAt
	w.Location = cmp.Or(r.Dir, w.Location)
	w.Metadata = map[string]string{"directory": w.Location}
	if r.Repository != "" {
		w.Metadata["repository"], w.Metadata["branch"] = r.Repository, h.tree(r).PublishedBranch()
	}
	switch {
	case r.Deleting:
		w.State = fleet.StateDeleting
	case r.Failure != "":
		w.State, w.Reason = fleet.StateFailed, r.Failure
	case !r.Ready:
		w.State, w.Reason = fleet.StatePending, "its directory is being created"
	case h.isStopped():
		w.State = fleet.StateStopped
	default:
		w.State = fleet.StateRunning
		if w.Reason = h.problem(r); w.Reason != "" {
			w.State = fleet.StateUnhealthy
		}
	}
	return w, r
}

// problem returns why the agent cannot work, or "" if it can.
func (h home) problem(r *record) string {
	if r.Repository != "" {
		return h.tree(r).Problem()
	}
	for _, dir := range []string{h.workDir(), r.Dir} {
		if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
			return "its directory " + dir + " does not exist"
		}
	}
	return ""
}

// uniqueLabel returns the label in the names of an agent's branches; see worktree.Git.AgentBranch. The label ends with the last
// characters of the uid, because a later agent may have the same name.
func uniqueLabel(name, uid string) string {
	const tail = 8
	short := runner.FileName(uid)
	if len(short) > tail {
		short = strings.TrimLeft(short[len(short)-tail:], "._-")
	}
	return runner.FileName(name) + "-" + strings.ToLower(short)
}
