package worktree

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// countDifferent returns how many files of the working tree differ from the commit head, or are not in it. files is the number of all
// files in the tree, with the link to the git directory. The result may be too low if files of head are missing in the tree, but it is
// 0 only if nothing differs.
func (v *view) countDifferent(ctx context.Context, t Tree, head string, files int64) (int, error) {
	if head == "" {
		return int(files), nil
	}
	indexView := *v
	indexView.env = append(slices.Clone(v.env), "GIT_INDEX_FILE="+filepath.Join(v.gitDir, "examined"),
		"GIT_OBJECT_DIRECTORY="+filepath.Join(commonDir(t.Repository), "objects")) // so that git ignores the agent's objects
	if _, err := indexView.run(ctx, "read-tree", head); err != nil {
		return 0, err
	}
	changed, tracked := 0, int64(0)
	out := &lineWriter{nulTerminated: true, truncate: true, each: func(string) { changed++ }}
	if err := indexView.pipe(ctx, nil, out, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all"); err != nil {
		return 0, err
	}
	out.each = func(entry string) {
		if !strings.HasPrefix(entry, gitlink) {
			tracked++
		}
	}
	if err := indexView.pipe(ctx, nil, out, "ls-files", "--stage", "-z"); err != nil {
		return 0, err
	}
	return changed + int(max(files-1-tracked, 0)), nil // includes files that git does not know, for example ignored ones and those of other repositories
}

// gitlink is the mode of a submodule.
const gitlink = "160000"

// countStaged returns how many files of the agent's index differ from the commit head. The working tree need not have their content.
func (v *view) countStaged(ctx context.Context, head string) (changed int, err error) {
	if err := v.usePrivateIndex(ctx, head); err != nil {
		return 0, err
	}
	out := &lineWriter{nulTerminated: true, truncate: true, each: func(string) { changed++ }}
	err = v.pipe(ctx, nil, out, "diff-index", "--cached", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", head)
	return changed, err
}
