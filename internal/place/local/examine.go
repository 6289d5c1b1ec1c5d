package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/filetree"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// hasDisposableFiles reports whether a deletion may remove the agent's home whatever files are in it. For an agent with a configuration
// and without a repository, fleet.AgentConfig.KeepFilesFor says whether its files outlive it.
func hasDisposableFiles(a fleet.Agent, r *record) bool {
	return (configNamesDriver(a) || r.ModelConfig != nil) && r.Repository == ""
}

// examination describes the work that may exist only in an agent's home.
type examination struct {
	survey    filetree.Survey
	work      worktree.Work
	otherWork []string // descriptions of such work, in addition to work.Unsaved
}

// unsaved describes the work for people. It returns "" if there is none.
func (e examination) unsaved() string {
	return strings.Join(slices.Concat(e.work.Unsaved, e.otherWork), ", ")
}

// UnsavedWork implements fleet.Examiner.
func (p *Place) UnsavedWork(ctx context.Context, a fleet.Agent) (string, error) {
	h := p.home(a.UID)
	if !h.exists() {
		return "", ctx.Err()
	}
	r, err := h.record()
	if err != nil || r == nil {
		return "", runner.HostError("cannot read the agent's record", err)
	}
	if hasDisposableFiles(a, r) {
		return "", nil
	}
	e, err := p.examine(ctx, h, r)
	return e.unsaved(), err
}

// examine examines the home of an agent that has no active run. It fails only if ctx is done. Files that cannot be examined count
// as work.
func (p *Place) examine(ctx context.Context, h home, r *record) (e examination, err error) {
	if !r.Ready && r.Unsaved == "" { // the agent never worked
		if r.Repository != "" {
			_, e.work.Branches, _ = p.git.Commits(ctx, h.tree(r)) // an error means that there is no branch
		}
		return e, ctx.Err()
	}
	if e.survey, err = sandbox.Examine(ctx, string(h)); err != nil {
		if ctx.Err() != nil {
			return e, ctx.Err()
		}
		e.otherWork = append(e.otherWork, "files that cannot be examined")
		p.config.Logger.WarnContext(ctx, "home not examined", "agent", r.Name, "error", err)
	} else if name := unlistedDir(h, e.survey); name != "" {
		e.otherWork = append(e.otherWork, "files that cannot be examined")
		p.config.Logger.WarnContext(ctx, "home not examined, it has too many entries", "agent", r.Name, "directory", name)
	}
	files := func(dir string) int64 { return e.survey.Parts[dir].Files }
	switch n := files(filepath.Base(h.workDir())); {
	case r.Repository == "" && n > 0:
		e.otherWork = append(e.otherWork, fmt.Sprintf("files in its directory (%d)", n))
	case r.Repository != "":
		e.work, err = p.git.Examine(ctx, h.tree(r), e.survey)
		if ctx.Err() != nil {
			return e, ctx.Err()
		}
		if err != nil {
			p.config.Logger.WarnContext(ctx, "worktree not examined", "agent", r.Name, "error", err)
			e.otherWork = append(e.otherWork, "a working copy that git cannot compare with its repository")
		}
	}
	if n := files("tmp"); n > 0 {
		e.otherWork = append(e.otherWork, fmt.Sprintf("files in its directory for temporary files (%d)", n))
	}
	visible, repositories := files("home"), e.survey.Parts["home"].Repositories
	for path, part := range e.survey.Parts {
		if name, ok := strings.CutPrefix(path, "home/"); ok && strings.HasPrefix(name, ".") {
			visible -= part.Files // programs store their settings, caches and conversations in hidden files
		}
	}
	if visible > 0 || repositories > 0 {
		e.otherWork = append(e.otherWork, "files in its home")
	}
	return e, nil
}

// unlistedDir returns a directory for the agent's work that the survey of its home does not describe, because the home has too many
// entries. It returns "" if there is none.
func unlistedDir(h home, s filetree.Survey) string {
	for _, name := range []string{filepath.Base(h.workDir()), "git", "tmp", "home"} {
		if _, listed := s.Parts[name]; listed {
			continue
		}
		if _, err := os.Lstat(h.join(name)); !errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}
