package worktree

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// countDifferent returns how many files of the working tree differ from the commit head, or are missing there. files is the number of all
// files in the tree, with the link to the git directory.
func (v *view) countDifferent(ctx context.Context, t Tree, head string, files int64) (int, error) {
	if head == "" {
		return int(files), nil
	}
	with := *v
	with.env = append(slices.Clone(v.env), "GIT_INDEX_FILE="+filepath.Join(v.tmp, "examined"),
		"GIT_OBJECT_DIRECTORY="+filepath.Join(commonDir(t.Repository), "objects")) // so that the agent's objects count for nothing
	if _, err := with.run(ctx, "read-tree", head); err != nil {
		return 0, err
	}
	var changed limitedBuffer
	if err := with.pipe(ctx, nil, &changed, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all"); err != nil {
		return 0, err
	}
	var known fileCounter
	if err := with.pipe(ctx, nil, &known, "ls-files", "--stage", "-z"); err != nil {
		return 0, err
	}
	more := max(files-1-int64(known.files), 0) // files that git does not know, also ignored ones and those of other repositories
	return strings.Count(changed.String(), "\x00") + int(more), nil
}

// countStaged returns how many files of the agent's index differ from the commit head. The working tree need not have their content.
func (v *view) countStaged(ctx context.Context, head string) (int, error) {
	if err := v.privateIndex(ctx, head); err != nil {
		return 0, err
	}
	var changed limitedBuffer
	err := v.pipe(ctx, nil, &changed, "diff-index", "--cached", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", head)
	return strings.Count(changed.String(), "\x00"), err
}

// fileCounter counts the files in the output of ls-files with --stage and -z, without keeping it.
type fileCounter struct {
	files int
	line  []byte // the beginning of an entry
}

func (c *fileCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == 0 {
			if !bytes.HasPrefix(c.line, []byte(gitlink)) {
				c.files++
			}
			c.line = c.line[:0]
		} else if len(c.line) < len(gitlink) {
			c.line = append(c.line, b)
		}
	}
	return len(p), nil
}

const gitlink = "160000" // the mode of a submodule
