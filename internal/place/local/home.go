package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// home is the directory of an agent.
type home string

// maxFile is the longest file of an agent's home that is read, in bytes. Each is a few lines; the longest is the record, which
// has the agent's spec.
const maxFile = 16 << 20

// record is what is written of an agent into its home.
type record struct {
	UID       string    `json:"uid"`
	Name      string    `json:"name"`
	Owner     string    `json:"owner"`
	Project   string    `json:"project"`
	Role      string    `json:"role"`
	Spec      string    `json:"spec"`
	CreatedAt time.Time `json:"created_at"`

	Dir        string `json:"dir,omitempty"`        // where it works, when that is not its own directory
	Results    bool   `json:"results,omitempty"`    // Dir is one of results: see keepResults
	Repository string `json:"repository,omitempty"` // where the worktree belongs to; empty: the agent has none
	Branch     string `json:"branch,omitempty"`
	Ready      bool   `json:"ready"` // everything was made

	// Deleting says that it was decided what is kept; Kept says it to people, and KeptDir is where the work goes.
	Deleting bool   `json:"deleting,omitempty"`
	Kept     string `json:"kept,omitempty"`
	KeptDir  string `json:"kept_dir,omitempty"`
}

func (b *Place) home(uid string) home {
	return home(filepath.Join(b.config.Dir, "agents", runner.FileName(uid)))
}

func (h home) path(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

func (h home) work() string { return h.path("work") }

func (h home) exists() bool {
	info, err := os.Stat(string(h))
	return err == nil && info.IsDir()
}

// record returns what is written of the agent; nil when nothing is.
func (h home) record() (*record, error) {
	b, err := agentfile.Read(h.path("agent.json"), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", h.path("agent.json"), err)
	}
	return &r, nil
}

func (h home) write(r *record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return shim.WriteFile(h.path("agent.json"), append(b, '\n'), 0o600)
}

func (h home) tree(r *record) worktree.Tree {
	return worktree.Tree{Repository: r.Repository, Dir: h.work(), GitDir: h.path("git"), Branch: r.Branch, UID: r.UID}
}

// stopped returns why the agent is stopped, and whether it is.
func (h home) stopped() (string, bool) {
	b, err := agentfile.Read(h.path("stopped"), maxFile)
	return strings.TrimSpace(string(b)), err == nil
}

func (h home) log(format string, args ...any) {
	shim.AppendLog(h.path("log"), fmt.Sprintf(format, args...))
}

// workspace says how the agent's workspace is.
func (h home) workspace() (fleet.Workspace, error) {
	w := fleet.Workspace{ID: filepath.Base(string(h)), AgentUID: filepath.Base(string(h)), Location: h.work()}
	if !h.exists() {
		w.State = fleet.StateDeleted
		return w, nil
	}
	r, err := h.record()
	if err != nil {
		w.State, w.Reason = fleet.StateUnhealthy, "its record cannot be read: delete the agent, or restore the file "+h.path("agent.json")
		return w, nil
	}
	if r == nil {
		w.State, w.Reason = fleet.StatePending, "its directory is being made"
		return w, nil
	}
	w.ID, w.AgentUID, w.Name, w.Owner, w.Project = r.UID, r.UID, r.Name, r.Owner, r.Project
	w.Role, w.Spec, w.CreatedAt = r.Role, r.Spec, r.CreatedAt
	if r.Dir != "" {
		w.Location = r.Dir
	}
	w.Metadata = map[string]string{"directory": w.Location}
	if r.Repository != "" {
		w.Metadata["repository"], w.Metadata["branch"] = r.Repository, r.Branch
	}
	reason, stopped := h.stopped()
	switch {
	case r.Deleting:
		w.State = fleet.StateDeleting
	case !r.Ready:
		w.State, w.Reason = fleet.StatePending, "its directory is being made"
	case stopped:
		w.State, w.Reason = fleet.StateStopped, reason
	default:
		w.State = fleet.StateRunning
		if w.Reason = h.trouble(r); w.Reason != "" {
			w.State = fleet.StateUnhealthy
		}
	}
	return w, nil
}

// trouble says in words why the agent cannot work; empty when it can.
func (h home) trouble(r *record) string {
	if r.Repository != "" {
		return h.tree(r).Trouble()
	}
	for _, dir := range []string{h.work(), r.Dir} {
		if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
			return "its directory " + dir + " is gone"
		}
	}
	return ""
}

// label names what an agent leaves behind: unlike its name, no other agent ever has the same.
func label(name, uid string) string {
	const tail = 8
	short := runner.FileName(uid)
	if len(short) > tail {
		short = strings.TrimLeft(short[len(short)-tail:], "._-")
	}
	return runner.FileName(name) + "-" + strings.ToLower(short)
}

// isRemote reports whether a repository is elsewhere.
func isRemote(source string) bool { return worktree.Remote(source) }
