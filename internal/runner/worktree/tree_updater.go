package worktree

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// treeUpdater updates the working trees in which people have checked out a branch, like a fast-forward. git runs there as the owner of
// the repository and with the repository's configuration, because it says, for example, which files a sparse checkout has. git runs no
// programs that the configuration names: hooks and filters are off, and a file that needs a filter is an error.
type treeUpdater struct {
	git          *Git
	branch       fleet.Branch // the branch before it moves
	to           string       // the commit to which it moves
	options      []string     // of each call of git
	changed      []changedFile
	filteredFile string // a changed file that needs a filter; empty if there is none
}

// newTreeUpdater returns an updater for the move of the branch.
func (g *Git) newTreeUpdater(ctx context.Context, repository string, b fleet.Branch, to string) (*treeUpdater, error) {
	t := &treeUpdater{git: g, branch: b, to: to, options: []string{"-c", "submodule.recurse=false"}}
	v, err := g.openRepository(repository)
	if err != nil {
		return nil, err
	}
	defer v.close()
	if t.changed, err = v.changedFiles(ctx, b.Commit, to); err != nil {
		return nil, err
	}
	names, err := g.filters(ctx, repository)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		for _, setting := range []string{"clean=", "smudge=", "process=", "required=false"} {
			t.options = append(t.options, "-c", "filter."+name+"."+setting)
		}
	}
	var paths []string
	for _, c := range t.changed {
		if strings.Trim(c.new, "0") != "" {
			paths = append(paths, c.path)
		}
	}
	t.filteredFile, err = g.firstFilteredPath(ctx, repository, to, names, paths)
	return t, err
}

// run runs git in the working tree, with the next index.
func (t *treeUpdater) run(ctx context.Context, c checkout, args ...string) error {
	return t.git.pipe(ctx, nil, []string{"GIT_INDEX_FILE=" + c.nextIndexPath()}, c.dir, nil, io.Discard, slices.Concat(t.options, args)...)
}

// refusedPathPattern matches git's messages about a file that it would overwrite.
var refusedPathPattern = regexp.MustCompile(`(?m)^error: (?:Entry|Untracked working tree file|Updating) '(.+?)'`)

// check returns BRANCH_CHECKED_OUT if the working tree cannot follow the branch. It changes only the next index.
func (t *treeUpdater) check(ctx context.Context, c checkout) error {
	const advice = "commit, stash or remove it, or check out another branch there, and try again"
	switch what := c.unfinishedOperation(""); {
	case what != "":
		return c.busyError(t.branch.Name, "a %s is not finished: finish or abort it, and try again", what)
	case t.filteredFile != "":
		return c.busyError(t.branch.Name, "the file %s needs a filter, which Fleet does not run: check out another branch there, and try again", t.filteredFile).With("file", t.filteredFile)
	}
	if path := c.blockingFile(t.changed); path != "" {
		return c.busyError(t.branch.Name, "the file %s, which git does not track, would be overwritten: %s", path, advice).With("file", path)
	}
	_ = t.run(ctx, c, "update-index", "-q", "--refresh") // an error only says that files have changed; read-tree finds that too
	err := t.run(ctx, c, "read-tree", "-n", "-m", "-u", t.branch.Commit, t.to)
	if e, isGitError := errors.AsType[*Error](err); isGitError && ctx.Err() == nil {
		if m := refusedPathPattern.FindStringSubmatch(e.Message); m != nil {
			return c.busyError(t.branch.Name, "%s has changes that would be overwritten: %s", m[1], advice).With("file", m[1])
		}
		return c.busyError(t.branch.Name, "git cannot update the files: %s", firstLine(e.Message))
	}
	return err
}

// update changes the files of the working tree from one commit to the other, and makes the next index its index.
func (t *treeUpdater) update(ctx context.Context, c checkout, from, to string) error {
	if err := t.run(ctx, c, "read-tree", "-m", "-u", from, to); err != nil {
		return err
	}
	return c.replaceIndex()
}

// undo restores the files of the working trees after they were updated. It returns cause, joined with its own errors.
func (t *treeUpdater) undo(ctx context.Context, all []checkout, cause error) error {
	for _, c := range all {
		err := c.copyIndex()
		if err == nil {
			err = t.update(ctx, c, t.to, t.branch.Commit)
		}
		if err == nil {
			err = c.unmark()
		}
		if err != nil {
			cause = errors.Join(cause, err)
		}
	}
	return cause
}

// catchUp updates working trees in which people have checked out the branch while it moved. It skips those in done, and trees that it
// cannot update.
func (t *treeUpdater) catchUp(ctx context.Context, repository string, done []checkout) {
	all, err := t.git.checkouts(ctx, repository, t.branch.Name)
	for _, c := range all {
		if err != nil || slices.Contains(done, c) || c.lockIndex(ctx, t.branch.Name) != nil {
			continue // the files stay as people have checked them out
		}
		if t.run(ctx, c, "diff-index", "--cached", "--quiet", t.branch.Commit) == nil && t.check(ctx, c) == nil {
			_ = t.update(ctx, c, t.branch.Commit, t.to)
		}
		_ = c.unlockIndex()
	}
}
