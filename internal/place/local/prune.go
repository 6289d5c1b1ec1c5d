package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
)

// Prune implements fleet.Pruner. ModelPlace.Prune prunes the homes of agents on models.
func (p *Place) Prune(ctx context.Context, q fleet.PruneQuery) ([]fleet.Leftover, error) {
	if q.Project != "" {
		if _, err := p.project(q.Project); err != nil {
			return nil, err
		}
	}
	// The uids are read before homes are removed, so that a dry run lists the same leftovers. A later call lists the refs of the
	// agents whose homes this call removes.
	presentUIDs, err := p.presentUIDs()
	if err != nil {
		return nil, err
	}
	all, err := p.pruneHomes(ctx, q, (*record).isNotOnModel)
	if err != nil {
		return nil, err
	}
	visited := map[string]bool{}
	for _, proj := range p.setup.Load().projects {
		r := repository{place: p, project: proj}
		r.Path = p.config.repositoryPath(proj.Repository)
		if _, err := os.Stat(r.Path); err != nil || visited[r.Path] || q.Project != "" && proj.Name != q.Project {
			continue
		}
		visited[r.Path] = true
		found, err := r.prune(ctx, q, presentUIDs)
		if err != nil {
			return nil, repositories.WrapError(ctx, "cannot examine the repository of the project "+proj.Name, err)
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b fleet.Leftover) int { return cmp.Compare(b.Size, a.Size) })
	return all, ctx.Err()
}

// prune lists the leftovers in the repository that q selects, and removes them unless q forbids it. presentUIDs are the uids of agents
// whose homes exist.
func (r repository) prune(ctx context.Context, q fleet.PruneQuery, presentUIDs []string) ([]fleet.Leftover, error) {
	query := worktree.LeftoverQuery{Before: q.Before, Deleted: map[string]string{}, Present: presentUIDs, Tasks: q.EndedTaskIDs, Settled: q.SettledCommits}
	uids, err := r.place.git.AgentsWithRefs(ctx, r.Path)
	if err != nil {
		return nil, err
	}
	deleted, err := q.FindDeleted(ctx, uids)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, a := range deleted {
		query.Deleted[a.UID], names[a.UID] = uniqueLabel(a.Name, a.UID), a.Name
	}
	all, err := r.place.git.Leftovers(ctx, r.Path, query)
	if err != nil {
		return nil, err
	}
	// Branches are removed before refs, because AgentsWithRefs finds an agent by its refs. So a later call can remove a branch that
	// this call could not remove.
	slices.SortStableFunc(all, func(a, b fleet.Leftover) int { return cmp.Compare(a.Kind, b.Kind) })
	problems := map[string]string{} // of the agents' earlier leftovers, by uid
	for i := range all {
		l := &all[i]
		l.Project, l.AgentName = r.project.Name, names[l.AgentUID]
		if q.DryRun || l.Proof == fleet.LeftoverUnproved && (!q.IncludeUnproved || names[l.AgentUID] == "") {
			continue
		}
		if l.Problem = problems[l.AgentUID]; l.Problem != "" {
			continue
		}
		err := r.place.git.RemoveLeftovers(ctx, r.Path, query, *l)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.place.recordPruned(ctx, l, repositories.WrapError(ctx, "cannot remove the refs", err))
		problems[l.AgentUID] = l.Problem
	}
	return all, nil
}

// recordPruned records in l, and logs, whether the leftover was removed. err is the error of the removal.
func (p *Place) recordPruned(ctx context.Context, l *fleet.Leftover, err error) {
	if err != nil {
		l.Problem = fleet.PublicMessage(err)
		p.config.Logger.WarnContext(ctx, "work of an agent not pruned", slog.String("agent", l.AgentUID), slog.String("kind", string(l.Kind)), slog.Any("error", err))
		return
	}
	l.Removed = true
	p.config.Logger.InfoContext(ctx, "work of an agent pruned", slog.String("agent", l.AgentUID), slog.String("kind", string(l.Kind)),
		slog.String("location", l.Location), slog.Any("names", l.Names), slog.Int("count", l.Count), slog.String("proof", string(l.Proof)))
}

// pruneHomes lists the kept homes that q selects and for whose record accept returns true. It removes them if q.IncludeUnproved is set and
// q.DryRun is not.
func (p *Place) pruneHomes(ctx context.Context, q fleet.PruneQuery, accept func(*record) bool) (all []fleet.Leftover, err error) {
	p.keptMu.Lock()
	defer p.keptMu.Unlock()
	kept, err := p.listKept(ctx, "", func(r *record) bool { return accept(r) && (q.Project == "" || r.Project == q.Project) })
	if err != nil {
		return nil, err
	}
	for _, w := range kept {
		if !w.KeptAt.Before(q.Before) {
			continue
		}
		l := fleet.Leftover{
			Kind: fleet.LeftoverHome, Project: w.Project, AgentUID: w.AgentUID, AgentName: w.AgentName, Location: w.Location, Count: 1, Size: w.Size, Newest: w.KeptAt,
			Proof: fleet.LeftoverUnproved, Reason: "it may have work that exists only there: " + w.Reason,
		}
		if q.IncludeUnproved && !q.DryRun {
			err := p.removeKept(ctx, w)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				err = runner.HostError("cannot remove the directory", err)
			}
			p.recordPruned(ctx, &l, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// presentUIDs returns the uids of the agents whose homes exist, including kept homes and homes that are being removed. For each
// home, it returns the uid in the record, if the record can be read, and the name of the directory.
func (p *Place) presentUIDs() (uids []string, err error) {
	for _, dir := range []string{"agents", "kept"} {
		entries, err := os.ReadDir(filepath.Join(p.config.Dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, runner.HostError("cannot read the directory of agents", err)
		}
		for _, e := range entries {
			name := e.Name()
			for _, prefix := range []string{".deleted-", removedPrefix} { // they are being removed
				name = strings.TrimPrefix(name, prefix)
			}
			r, err := home(filepath.Join(p.config.Dir, dir, e.Name())).record()
			if err == nil && r != nil && r.UID != "" {
				uids = append(uids, r.UID)
			}
			uids = append(uids, name)
		}
	}
	return uids, nil
}
