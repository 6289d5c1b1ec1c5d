package worktree

import (
	"context"
	"errors"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
)

// mergePreview is a contribution as it would be after a merge into the branch.
type mergePreview struct {
	name        string
	commit      string                // a synthetic commit on top of the branch, perhaps with conflict markers
	files       map[string]*fileLines // by path; a renamed file counts with both paths
	addedPaths  []string              // paths that the branch does not have
	renamedDirs map[string]bool       // directories from which files were renamed
	changed     bool                  // the contribution changes files; false also if it cannot be combined with the branch
}

// Overlaps compares the contributions with each other: see fleet.Repository. It merges two contributions with each other only if they
// could be in conflict.
func (g *Git) Overlaps(ctx context.Context, repository, onto string, all []fleet.Contribution) ([]fleet.WorkOverlap, error) {
	commits := []string{onto}
	for _, c := range all {
		commits = append(commits, c.Head)
	}
	d, err := g.openDraft(ctx, repository, commits...)
	if err != nil {
		return nil, err
	}
	defer d.close()
	previews := make([]mergePreview, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range all {
		group.Go(func() (err error) {
			previews[i], err = d.preview(groupCtx, onto, c)
			if _, isGitError := errors.AsType[*Error](err); isGitError && groupCtx.Err() == nil {
				previews[i], err = mergePreview{}, nil // for example, it exceeds git's limits: Combine reports that, and the others can still be compared
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	pairs := make([]*fleet.WorkOverlap, len(previews)*len(previews))
	group, groupCtx = errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range previews {
		for j := range i {
			group.Go(func() (err error) {
				pairs[j*len(previews)+i], err = d.overlap(groupCtx, &previews[j], &previews[i])
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []fleet.WorkOverlap
	for _, p := range pairs {
		if p != nil {
			found = append(found, *p)
		}
	}
	return found, nil
}

// preview merges the contribution into the branch, in the draft. The result reads as unchanged if the two have no common history. It
// has about maxCompared files at most.
func (d *draft) preview(ctx context.Context, onto string, c fleet.Contribution) (w mergePreview, err error) {
	w = mergePreview{name: c.Name, files: map[string]*fileLines{}, renamedDirs: map[string]bool{}}
	base, err := d.base(ctx, c, onto, true)
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Code == fleet.InvalidArgument { // a contribution without a common history cannot be combined
		return w, nil
	}
	if err != nil || base.commit == c.Head {
		return w, err
	}
	if err := d.copyAttributes(ctx, onto, base.commit, c.Head); err != nil {
		return w, err
	}
	ours, theirs, err := d.mergeSides(ctx, base, onto, c.Head)
	if err != nil {
		return w, err
	}
	tree, _, err := d.tryMerge(ctx, ours, theirs)
	if err != nil {
		return w, err
	}
	if w.commit, err = d.syntheticCommit(ctx, tree, onto); err != nil {
		return w, err
	}
	limitedCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &patchReader{preview: &w, onLimit: cancel}
	args := append(slices.Clone(diffArguments), "--raw", "-p", "-U0", "--full-index", "--end-of-options", onto, w.commit)
	err = d.pipe(limitedCtx, nil, &lineWriter{truncate: true, each: p.readLine}, args...)
	if w.changed = len(w.files) > 0; len(w.files) >= maxCompared && ctx.Err() == nil {
		err = nil // the first files are compared
	}
	return w, err
}

// tryMerge works like merge, but returns only the tree, perhaps with conflict markers, and whether there are conflicts. Several calls can
// run at the same time.
func (d *draft) tryMerge(ctx context.Context, ours, theirs string) (tree string, conflict bool, err error) {
	var first string
	out := &lineWriter{truncate: true, each: func(line string) {
		if first == "" {
			first = line
		}
	}}
	err = d.pipe(ctx, nil, out, "merge-tree", "--write-tree", "--no-messages", "--name-only", ours, theirs)
	if conflict = exitCode(err) == 1; err != nil && !conflict || !gitfiles.IsOID(first) {
		return "", false, mergeError(err)
	}
	return first, conflict, nil
}

// overlap compares two contributions. It returns nil if they neither change the same lines nor are in conflict.
func (d *draft) overlap(ctx context.Context, a, b *mergePreview) (*fleet.WorkOverlap, error) {
	if !a.changed || !b.changed {
		return nil, nil
	}
	o, mustMerge, sharesLines := &fleet.WorkOverlap{A: a.name, B: b.name}, a.mayBlock(b) || b.mayBlock(a), false
	for name, fileA := range a.files {
		fileB := b.files[name]
		if fileB == nil {
			continue
		}
		f := fleet.OverlapFile{Path: name}
		mustMerge = mustMerge || !fileA.onlyLines || !fileB.onlyLines
		for _, s := range fileA.spans {
			// The spans are sorted, and those before fileB.spans[from] end before s begins.
			from, _ := slices.BinarySearchFunc(fileB.spans, s.begin, func(o span, begin int) int { return o.end() - begin })
			for _, t := range fileB.spans[from:] {
				if t.begin > s.end() {
					break
				}
				mustMerge = true
				if shared := s.shared(t); shared != nil {
					f.Lines = append(f.Lines, *shared)
				}
			}
		}
		sharesLines = sharesLines || len(f.Lines) > 0
		o.Files = append(o.Files, f)
	}
	if mustMerge {
		var err error
		if _, o.Conflict, err = d.tryMerge(ctx, a.commit, b.commit); err != nil {
			return nil, err
		}
	}
	if !o.Conflict && !sharesLines {
		return nil, nil
	}
	slices.SortFunc(o.Files, func(a, b fleet.OverlapFile) int { return strings.Compare(a.Path, b.Path) })
	return o, nil
}

// mayBlock reports whether b adds a path that may be in conflict with m: a path below a file of m, or in a directory from which m has
// renamed files.
func (m *mergePreview) mayBlock(b *mergePreview) bool {
	return slices.ContainsFunc(b.addedPaths, func(name string) bool {
		if m.renamedDirs[path.Dir(name)] {
			return true
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if m.files[dir] != nil {
				return true
			}
		}
		return false
	})
}
