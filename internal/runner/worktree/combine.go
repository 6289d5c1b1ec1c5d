package worktree

import (
	"context"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
)

// Combine creates the commit that brings the work on top of c.Onto, without a checkout: see fleet.Repository.
func (g *Git) Combine(ctx context.Context, repository string, c fleet.Combination) (fleet.CombineResult, error) {
	d, err := g.openDraft(ctx, repository, c.Onto, c.Head)
	if err != nil {
		return fleet.CombineResult{}, err
	}
	defer d.close()
	result, err := d.combine(ctx, c)
	if err != nil || result.Commit == "" || result.Commit == c.Onto {
		return result, err
	}
	return result, d.store(ctx, result.Commit, c.Onto, c.Head)
}

// combine creates the commit in the draft.
func (d *draft) combine(ctx context.Context, c fleet.Combination) (r fleet.CombineResult, err error) {
	base, err := d.base(ctx, c.Contribution, c.Onto, c.Strategy == fleet.Squash)
	if err != nil {
		return r, err
	}
	if r.Base = base.commit; r.Base == c.Head {
		r.Commit = c.Onto
		return r, nil
	}
	if err := d.copyAttributes(ctx, c.Onto, r.Base, c.Head); err != nil {
		return r, err
	}
	if c.Strategy == fleet.Rebase {
		err = d.rebase(ctx, c, base, &r)
		return r, err
	}
	ours, theirs, err := d.mergeSides(ctx, base, c.Onto, c.Head)
	if err != nil {
		return r, err
	}
	m, err := d.merge(ctx, ours, theirs)
	if err != nil || len(m.conflicts) > 0 {
		r.Conflicts = m.conflicts
		return r, err
	}
	tree, err := d.treeOf(ctx, c.Onto)
	if err != nil {
		return r, err
	}
	if m.tree == tree {
		r.Commit = c.Onto
		return r, nil
	}
	object := commitObject{tree: m.tree, parents: []string{c.Onto}, author: personLine(c.Author, c.At), committer: personLine(c.Committer, c.At), message: cleanMessage(c.Message)}
	if c.Strategy == fleet.Merge {
		object.parents, object.author = append(object.parents, c.Head), object.committer
	}
	r.Commit, err = d.commit(ctx, object)
	return r, err
}

// workBase is the commit that a contribution is compared with.
type workBase struct {
	commit       string
	overridesGit bool // git itself would choose another base
}

// base returns the commit that c is compared with when it is put on top of onto. It returns INVALID_ARGUMENT if c and onto
// have no common history. If allowSnapshot is set, c may also start at a snapshot of uncommitted files. The snapshot is in no
// history, but its parent must be in the history of c.
func (d *draft) base(ctx context.Context, c fleet.Contribution, onto string, allowSnapshot bool) (workBase, error) {
	common, err := d.run(ctx, "merge-base", onto, c.Head)
	if exitCode(err) == 1 {
		return workBase{}, fleet.InvalidField("head", "the commit %s has no history in common with the branch: it must be based on a commit of the branch", c.Head)
	}
	if err != nil || c.Since == "" || c.Since == common || common == c.Head {
		return workBase{commit: common}, err
	}
	found, err := d.existingObjects(ctx, []string{c.Since})
	if err != nil || len(found) == 0 {
		return workBase{commit: common}, err
	}
	if contained, err := d.contains(ctx, c.Since, common); err != nil || !contained {
		return workBase{commit: common}, err
	}
	contained, err := d.contains(ctx, c.Head, c.Since)
	if err == nil && !contained && allowSnapshot {
		var parents string
		if parents, err = d.run(ctx, "rev-parse", c.Since+"^@"); err == nil && gitfiles.IsOID(parents) {
			contained, err = d.contains(ctx, c.Head, parents)
		}
	}
	if err != nil || !contained {
		return workBase{commit: common}, err
	}
	return workBase{commit: c.Since, overridesGit: true}, nil
}

// mergeSides returns the commits to merge in place of onto and head, so that git uses the base.
func (d *draft) mergeSides(ctx context.Context, base workBase, onto, head string) (ours, theirs string, err error) {
	if ours, err = d.mergeSide(ctx, base, onto); err == nil {
		theirs, err = d.mergeSide(ctx, base, head)
	}
	return ours, theirs, err
}

// mergeSide returns the commit to merge in place of the given commit. That is the given commit, unless the base overrides the choice of
// git. Then it is a commit with the same files, whose parent is the base: git before version 2.40 has no option for the base.
func (d *draft) mergeSide(ctx context.Context, base workBase, commit string) (string, error) {
	if !base.overridesGit {
		return commit, nil
	}
	tree, err := d.treeOf(ctx, commit)
	if err != nil {
		return "", err
	}
	return d.syntheticCommit(ctx, tree, base.commit)
}

// rebase repeats each commit of the work on top of c.Onto, and sets Commit or Conflicts of r. It leaves out commits that change nothing
// there.
func (d *draft) rebase(ctx context.Context, c fleet.Combination, base workBase, r *fleet.CombineResult) error {
	args := []string{"rev-list", "--reverse", "--topo-order", "--right-only", "--cherry-pick", c.Onto + "..." + c.Head}
	if base.overridesGit {
		args = append(args, "^"+base.commit)
	}
	list, err := d.run(ctx, args...)
	if err != nil {
		return err
	}
	work, err := d.commits(ctx, strings.Fields(list))
	if err != nil {
		return err
	}
	tree, err := d.treeOf(ctx, c.Onto)
	if err != nil {
		return err
	}
	for _, w := range work {
		if len(w.parents) > 1 {
			return fleet.InvalidField("strategy", "the work has the merge commit %s, which cannot be rebased: use squash or merge", w.oid)
		}
	}
	top := c.Onto
	for _, w := range work {
		m, err := d.pick(ctx, tree, w)
		if err != nil || len(m.conflicts) > 0 {
			r.Conflicts = m.conflicts
			return err
		}
		if m.tree == tree {
			continue
		}
		w.tree, w.parents, w.committer = m.tree, []string{top}, personLine(c.Committer, c.At)
		if top, err = d.commit(ctx, w.commitObject); err != nil {
			return err
		}
		tree = m.tree
		if err := d.refreshAttributes(ctx, top, base.commit, c.Head); err != nil {
			return err
		}
	}
	r.Commit = top
	return nil
}

// pick merges the changes of the commit into the tree.
func (d *draft) pick(ctx context.Context, tree string, w workCommit) (m mergeResult, err error) {
	theirs := w.oid
	if len(w.parents) == 0 { // the beginning of another history
		empty := ""
		if empty, err = d.run(ctx, "mktree"); err == nil {
			empty, err = d.syntheticCommit(ctx, empty)
		}
		if err == nil {
			w.parents = []string{empty}
			theirs, err = d.syntheticCommit(ctx, w.tree, empty)
		}
		if err != nil {
			return m, err
		}
	}
	ours, err := d.syntheticCommit(ctx, tree, w.parents...)
	if err != nil {
		return m, err
	}
	return d.merge(ctx, ours, theirs)
}
