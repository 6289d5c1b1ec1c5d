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
	"syscall"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	"fleet/internal/runner/filetree"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// Delete implements fleet.Place. If it is not proved that the repository has all work of the agent, it only moves the agent's
// home; see Kept and Start. It keeps the agent's branch if the branch has commits of its own. It keeps the files of an agent
// with fleet.AgentConfig.Keep for that time.
func (p *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	h := p.home(a.UID)
	trash := home(filepath.Join(filepath.Dir(string(h)), ".deleted-"+filepath.Base(string(h))))
	if !h.exists() {
		if k := p.keptHome(a.UID); k.exists() {
			return p.keptText(k)
		}
		return p.deleteHome(ctx, trash)
	}
	if err := p.host.End(ctx, runner.Home(h), "its agent was deleted"); err != nil {
		return "", err
	}
	r, err := h.record()
	if err != nil {
		p.config.Logger.WarnContext(ctx, "agent record unreadable, keeping its directory", "agent", a.Name, "error", err)
		r = &record{UID: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Spec: a.Spec, Unsaved: "its record cannot be read"}
	}
	if r == nil {
		r = &record{}
	}
	if r.Results && a.Config != nil {
		if err := p.keepResults(ctx, a, r); err != nil {
			return "", err
		}
	}
	if !r.Deleting {
		if err := p.decideKept(ctx, a, h, r); err != nil {
			return "", err
		}
	}
	if r.Unsaved != "" {
		return p.moveToKept(ctx, h, r)
	}
	if r.Repository != "" && p.git.Check(ctx, r.Repository) == nil {
		if err := p.git.Remove(ctx, h.tree(r), r.Branches); err != nil {
			return "", repositories.Wrap(ctx, "cannot remove the agent's worktree", err)
		}
	}
	p.removeConversations(ctx, a, h)
	// The rename makes the removal atomic: a home is either complete or removed.
	if _, err := p.deleteHome(ctx, trash); err != nil {
		return "", err
	}
	if err := os.Rename(string(h), string(trash)); err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	return p.deleteHome(ctx, trash)
}

// decideKept decides what is kept, and writes the decision to the record.
func (p *Place) decideKept(ctx context.Context, a fleet.Agent, h home, r *record) error {
	e, err := p.examine(ctx, h, r)
	if err != nil {
		return err
	}
	if r.Unsaved == "" && !hasTemporaryFiles(a, r) {
		r.Unsaved = e.unsaved()
	}
	if e.work.Commits > 0 {
		r.Kept = fmt.Sprintf("the commits of agent %q (%d) are kept on the %s of %s", r.Name, e.work.Commits, branchesText(e.work.Branches), r.Repository)
	}
	r.Branches = e.work.Branches
	if r.Unsaved != "" {
		r.KeptAt, r.Size = time.Now().UTC(), e.survey.Bytes
	}
	r.Deleting = true
	// After a crash, the next call reads the decision from the record. On a full disk, the deletion must continue although the
	// record cannot be written.
	if err := h.writeRecord(r); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return runner.HostError("cannot write the agent's record", err)
	}
	return nil
}

// hasTemporaryFiles reports whether the files of the agent are temporary. The configurations of other toolsets say which files outlive
// their agents: see fleet.AgentConfig.Keep.
func hasTemporaryFiles(a fleet.Agent, r *record) bool {
	return (hasConfig(a) || r.Config != nil) && r.Repository == ""
}

// examination says what may exist only in an agent's home.
type examination struct {
	survey    filetree.Survey
	work      worktree.Work
	otherWork []string // what may exist only there, besides work.Unsaved
}

func (e examination) unsaved() string {
	return strings.Join(slices.Concat(e.work.Unsaved, e.otherWork), ", ")
}

// Unsaved implements fleet.Examiner.
func (p *Place) Unsaved(ctx context.Context, a fleet.Agent) (string, error) {
	h := p.home(a.UID)
	if !h.exists() {
		return "", ctx.Err()
	}
	r, err := h.record()
	if err != nil || r == nil {
		return "", runner.HostError("cannot read the agent's record", err)
	}
	if hasTemporaryFiles(a, r) {
		return "", nil
	}
	e, err := p.examine(ctx, h, r)
	return e.unsaved(), err
}

// examine examines the home of an agent without runs. It fails only if ctx is done: what cannot be examined may be work.
func (p *Place) examine(ctx context.Context, h home, r *record) (e examination, err error) {
	if !r.Ready && r.Unsaved == "" { // the agent never worked
		if r.Repository != "" {
			_, e.work.Branches, _ = p.git.Commits(ctx, h.tree(r)) // an error means that there is no branch
		}
		return e, ctx.Err()
	}
	if e.survey, err = sandbox.Look(ctx, string(h)); err != nil {
		if ctx.Err() != nil {
			return e, ctx.Err()
		}
		e.otherWork = append(e.otherWork, "files that cannot be examined")
		p.config.Logger.WarnContext(ctx, "home not examined", "agent", r.Name, "error", err)
	}
	files := func(dirs ...string) (n int64) {
		for _, dir := range dirs {
			n += e.survey.Parts[dir].Files
		}
		return n
	}
	switch n := files(filepath.Base(h.work())); {
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

// branchesText returns the names of branches as a part of a sentence.
func branchesText(names []string) string {
	if len(names) == 1 {
		return "branch " + names[0]
	}
	return "branches " + strings.Join(names, ", ")
}

// deleteHome deletes a home that Delete has renamed to trash. It deletes the record last, so that an interrupted
// deletion can be repeated. It returns the description of the kept work.
func (p *Place) deleteHome(ctx context.Context, trash home) (string, error) {
	entries, err := agentfile.ReadDir(string(trash))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	kept := ""
	if r, err := trash.record(); err == nil && r != nil {
		kept = r.Kept
	}
	for _, e := range entries {
		if e.Name() == "agent.json" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := worktree.RemoveAll(trash.join(e.Name())); err != nil {
			return "", runner.HostError("cannot remove the agent's directory", err)
		}
	}
	if err := worktree.RemoveAll(string(trash)); err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	return kept, nil
}
