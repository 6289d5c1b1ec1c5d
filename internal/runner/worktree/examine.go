package worktree

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/runner/filetree"
)

// Work describes the work of an agent.
type Work struct {
	// Unsaved describes for people the work that may exist only in the tree or in its git directory. It is empty only if the
	// repository certainly has all work.
	Unsaved []string
	// Commits is the number of commits that are only on branches of the agent in the repository.
	Commits int
	// Branches are the branches with these commits, at most maxNamedBranches: see Git.Commits.
	Branches []string
}

// Examine collects the agent's commits into the repository, and compares the tree with the repository. survey describes the
// directory that contains t.Dir and t.GitDir.
//
// It does not trust the agent's index, in which the agent can mark changed files as unchanged, or the agent's lists of ignored files.
// It proves that the directory has the files of HEAD, unchanged, and no other files; that the git directory
// has no files besides those of an ordinary git directory; and that every commit in it is on a branch or a tag of the
// repository. Whatever cannot be proved counts as unsaved.
func (g *Git) Examine(ctx context.Context, t Tree, survey filetree.Survey) (Work, error) {
	var w Work
	if !t.hasOwnGitDir() {
		w.Unsaved = append(w.Unsaved, "a working copy without a git directory")
		return w, ctx.Err()
	}
	v, err := g.openAgentTree(ctx, t)
	if err != nil {
		return w, err
	}
	defer v.close()
	head, _ := v.headCommit(ctx)
	_, leftOut, err := g.collect(ctx, t, v, head)
	if err != nil {
		return w, err
	}
	if leftOut != "" {
		w.Unsaved = append(w.Unsaved, leftOut)
	}
	if w.Commits, w.Branches, err = g.Commits(ctx, t); err != nil {
		return w, err
	}
	if source, ok := g.sources.Load(t.Repository); ok && w.Commits > 0 {
		// The agent may have pushed commits. Only the remote is asked about that, because the agent can write its own record of
		// its pushes. If the remote does not answer, the commits count as not pushed.
		limitedCtx, cancel := context.WithTimeout(ctx, remoteTimeout)
		err := g.Fetch(limitedCtx, source.(string), t.Repository)
		cancel()
		if n, branches, cerr := g.Commits(ctx, t); err == nil && cerr == nil {
			w.Commits, w.Branches = n, branches
		}
		if ctx.Err() != nil {
			return w, ctx.Err()
		}
	}
	unreachable, err := g.unreachableCommits(ctx, t, v)
	switch {
	case err != nil:
		return w, err
	case unreachable > 0:
		w.Unsaved = append(w.Unsaved, plural(unreachable, "commit on no branch", "commits on no branch"))
	}
	w.Unsaved = append(w.Unsaved, t.unusualEntries(survey)...)
	files, err := v.countDifferent(ctx, t, head, survey.Parts[filepath.Base(t.Dir)].Files)
	if err == nil && files > 0 {
		w.Unsaved = append(w.Unsaved, plural(files, "file that its last commit does not have", "files that its last commit does not have"))
	}
	if err == nil && head != "" && len(w.Unsaved) == 0 {
		var staged int
		if staged, err = v.countStaged(ctx, head); staged > 0 {
			w.Unsaved = append(w.Unsaved, plural(staged, "staged change", "staged changes"))
		}
	}
	return w, err
}

// remoteTimeout limits how long Examine waits for the remote of a mirror.
const remoteTimeout = 30 * time.Second

// plural returns the number with the noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// usualEntries maps the entries of an ordinary git directory to the kind of work that they may contain; empty if none.
var usualEntries = map[string]string{
	"HEAD": "", "config": "", "description": "", "index": "", "objects": "", "refs": "", "logs": "", "packed-refs": "", "info": "", "hooks": "", "branches": "",
	"ORIG_HEAD": "", "FETCH_HEAD": "", "COMMIT_EDITMSG": "", "shallow": "", "gc.log": "", "index.lock": "", "AUTO_MERGE": "", "MERGE_RR": "", "rr-cache": "",
	"modules": "submodules", "worktrees": "worktrees of its own", "lfs": "files of Git LFS",
}

// unusualEntries describes for people the entries of the git directory that may be work.
func (t Tree) unusualEntries(survey filetree.Survey) (found []string) {
	other := 0
	unlisted := survey.Parts[filepath.Base(t.GitDir)].Files
	for path, part := range survey.Parts {
		name, ok := strings.CutPrefix(path, filepath.Base(t.GitDir)+"/")
		if !ok {
			continue
		}
		unlisted -= part.Files
		what, known := usualEntries[name]
		switch {
		case !known && !strings.HasPrefix(name, "sharedindex."):
			other++
		case what != "" && part.Files > 0:
			found = append(found, what)
		}
	}
	if slices.Sort(found); other > 0 || unlisted > 0 {
		found = append(found, "a merge, a rebase or something else in its git directory")
	}
	return found
}
