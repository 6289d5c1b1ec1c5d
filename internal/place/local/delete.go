package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
)

// Delete implements fleet.Place. If the agent's home may have work that exists nowhere else, Delete moves the home instead of
// removing it; see KeptWork and Start. It keeps the agent's branches that have commits of their own. If fleet.AgentConfig.KeepFilesFor
// is set, Delete keeps the agent's files for that time.
func (p *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	h := p.home(a.UID)
	trash := home(filepath.Join(filepath.Dir(string(h)), ".deleted-"+filepath.Base(string(h))))
	if !h.exists() {
		if k := p.keptHome(a.UID); k.exists() {
			return p.describeKept(k), nil
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
	if r.WorksInResults && a.Config != nil {
		if err := p.keepResults(ctx, a, r); err != nil {
			return "", err
		}
	}
	if !r.Deleting {
		if err := p.decideWhatToKeep(ctx, a, h, r); err != nil {
			return "", err
		}
	}
	if r.Unsaved != "" {
		return p.moveToKept(ctx, h, r)
	}
	if r.Repository != "" && p.git.Check(ctx, r.Repository) == nil {
		if err := p.git.Remove(ctx, h.tree(r), r.Branches); err != nil {
			return "", repositories.WrapError(ctx, "cannot remove the agent's worktree", err)
		}
	}
	p.removeConversations(ctx, a, h)
	// The rename makes the removal atomic: a home is either complete or removed. An earlier call may have left something at the
	// new path.
	if _, err := p.deleteHome(ctx, trash); err != nil {
		return "", err
	}
	if err := os.Rename(string(h), string(trash)); err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	return p.deleteHome(ctx, trash)
}

// decideWhatToKeep decides whether Delete keeps the home and which branches it keeps, and writes the decision to the record.
func (p *Place) decideWhatToKeep(ctx context.Context, a fleet.Agent, h home, r *record) error {
	e, err := p.examine(ctx, h, r)
	if err != nil {
		return err
	}
	if r.Unsaved == "" && !hasDisposableFiles(a, r) {
		r.Unsaved = e.unsaved()
	}
	if e.work.Commits > 0 {
		r.KeptOutside = fmt.Sprintf("the commits of agent %q (%d) are kept on the %s of %s", r.Name, e.work.Commits, describeBranches(e.work.Branches), r.Repository)
	}
	r.Branches = e.work.Branches
	if r.Unsaved != "" {
		r.KeptAt, r.KeptSize = time.Now().UTC(), e.survey.Bytes
	}
	r.Deleting = true
	// After a crash, the next call reads the decision from the record. On a full disk, the deletion must continue although the
	// record cannot be written.
	if err := h.writeRecord(r); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return runner.HostError("cannot write the agent's record", err)
	}
	return nil
}

// describeBranches returns "branch" or "branches" and the names, for use in a sentence.
func describeBranches(names []string) string {
	if len(names) == 1 {
		return "branch " + names[0]
	}
	return "branches " + strings.Join(names, ", ")
}

// deleteHome deletes a home that Delete has renamed to trash. It deletes the record last, so that an interrupted deletion can be
// repeated. It returns record.KeptOutside, or "" if trash does not exist or has no readable record.
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
		kept = r.KeptOutside
	}
	paths := []string{}
	for _, e := range entries {
		if e.Name() != "agent.json" {
			paths = append(paths, trash.join(e.Name()))
		}
	}
	for _, path := range append(paths, string(trash)) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := worktree.RemoveAll(path); err != nil {
			return "", runner.HostError("cannot remove the agent's directory", err)
		}
	}
	return kept, nil
}
