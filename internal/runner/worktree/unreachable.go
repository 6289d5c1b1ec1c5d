package worktree

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/runner/gitfiles"
)

// maxCommits limits the number of commits in an agent's git directory that are compared with the repository.
const maxCommits = 700_000

// unreachableCommits returns how many commits in the agent's git directory are on no branch and no tag that the repository has. These
// are, for example, older stashes, commits of a detached HEAD, and commits that were replaced by others.
func (g *Git) unreachableCommits(ctx context.Context, t Tree, v *view) (int, error) {
	commits, err := v.commitsInGitDir(ctx, t)
	if err != nil || len(commits) == 0 {
		return 0, err
	}
	refs, err := g.refs(ctx, t)
	if err != nil {
		return 0, err
	}
	prefix := agentRefPrefix(t.UID)
	maps.DeleteFunc(refs, func(name string, _ ref) bool { // Fleet's refs of tasks also contain commits that are on no branch
		return strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, prefix+"heads/") && !strings.HasPrefix(name, prefix+"tags/")
	})
	repositoryView, err := g.openRepository(t.Repository)
	if err != nil {
		return 0, err
	}
	defer repositoryView.close()
	found, err := repositoryView.existingObjects(ctx, commits)
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	if err := repositoryView.pipe(ctx, revisions(found, refs.oids()), &out, "rev-list", "--count", "--ignore-missing", "--stdin"); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(out.String()))
	return len(commits) - len(found) + n, err
}

// commitsInGitDir returns the commits in the agent's git directory, or an error if there are more than maxCommits.
func (v *view) commitsInGitDir(ctx context.Context, t Tree) (all []string, err error) {
	dir := filepath.Join(v.gitDir, "own") // without alternates, so that git does not list the objects of the repository
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range v.info.ObjectDirs {
		name = filepath.Base(name)
		if err := os.Symlink(filepath.Join(t.GitDir, "objects", name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	agentView := *v
	agentView.env = append(slices.Clone(v.env), "GIT_OBJECT_DIRECTORY="+dir)
	out := lineWriter{each: func(line string) {
		if oid, ok := strings.CutPrefix(line, "commit "); ok && gitfiles.IsOID(oid) && len(all) <= maxCommits {
			all = append(all, oid)
		}
	}}
	err = agentView.pipe(ctx, nil, &out, "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectname)")
	if err == nil && len(all) > maxCommits {
		err = errors.New("there is too much to examine")
	}
	return all, err
}
