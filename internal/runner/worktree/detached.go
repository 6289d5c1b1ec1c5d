package worktree

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/runner/gitfiles"
)

// maxWorktrees limits how many of the agent's own worktrees are examined.
const maxWorktrees = 1000

// detachedHeads returns the commits that the agent's own worktrees have checked out without a branch, by the names under
// which they are collected. Agents create such worktrees with "git worktree add". Their branches are ordinary branches
// of the agent.
func (v *view) detachedHeads(ctx context.Context) (map[string]string, error) {
	heads := map[string]string{}
	for name, oid := range v.info.DetachedHeads {
		if gitfiles.IsOID(oid) && len(heads) < maxWorktrees {
			heads["refs/worktrees/"+refPart(name)] = oid
		}
	}
	found, err := v.existingObjects(ctx, slices.Collect(maps.Values(heads))) // a missing object would prevent collecting the others
	maps.DeleteFunc(heads, func(_, oid string) bool { return !slices.Contains(found, oid) })
	return heads, err
}

// maxLinked limits how many worktrees of the agent below its working tree are compared with their commits.
const maxLinked = 20

// leaveOutLinked returns the paths without those of the agent's own worktrees, whose commits were collected. If such a
// worktree has uncommitted files, leaveOutLinked records that they are left out.
func (v *view) leaveOutLinked(ctx context.Context, s *staging, paths []string) []string {
	heads := map[string]string{}
	for _, w := range v.info.Worktrees {
		if len(heads) < maxLinked {
			heads[w.Dir] = w.Head
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		head, ok := heads[filepath.Join(v.dir, path)]
		if !ok || !strings.HasSuffix(path, "/") {
			return false
		}
		if !v.isClean(ctx, path, head) {
			s.leaveOut(path, "uncommitted files of a worktree of its own")
		}
		return true
	})
}

// isClean reports whether a worktree below the working tree has exactly the files of its HEAD.
func (v *view) isClean(ctx context.Context, path, head string) bool {
	if !usableHeadPattern.MatchString(head) {
		return false
	}
	linkedView := *v
	linkedView.dir = filepath.Join(v.dir, path)
	linkedView.env = append(slices.Clone(v.env), "GIT_WORK_TREE="+linkedView.dir, "GIT_INDEX_FILE="+filepath.Join(v.gitDir, "linked"))
	if _, err := linkedView.run(ctx, "read-tree", strings.TrimSpace(strings.TrimPrefix(head, "ref:"))+"^{commit}"); err != nil {
		return false
	}
	var l listing
	warnings, err := linkedView.listFiles(ctx, &l, "--modified", "--deleted", "--others", "--exclude-standard")
	return err == nil && warnings == "" && len(l.paths) == 0
}
