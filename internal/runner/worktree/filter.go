package worktree

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// firstFilteredPath returns the first path for which git would run one of the filters when it checks out the commit, or an
// empty string if there is none.
func (g *Git) firstFilteredPath(ctx context.Context, repository, commit string, filters, paths []string) (string, error) {
	if len(filters) == 0 || len(paths) == 0 {
		return "", nil
	}
	v, err := g.openRepository(repository)
	if err != nil {
		return "", err
	}
	defer v.close()
	v.env = append(v.env, "GIT_INDEX_FILE="+filepath.Join(v.gitDir, "index"))
	if _, err := v.run(ctx, "read-tree", commit); err != nil {
		return "", err
	}
	var fields []string
	in := strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	out := &lineWriter{nulTerminated: true, each: func(f string) { fields = append(fields, f) }}
	if err := v.pipe(ctx, in, out, "check-attr", "--cached", "-z", "--stdin", "filter"); err != nil {
		return "", err
	}
	for i := 0; i+2 < len(fields); i += 3 { // the path, the attribute, the value
		if slices.Contains(filters, fields[i+2]) {
			return fields[i], nil
		}
	}
	return "", nil
}

// filters returns the names of the filters in the configuration of the repository, the user and the system.
func (g *Git) filters(ctx context.Context, repository string) ([]string, error) {
	out, err := g.run(ctx, repository, "config", "--includes", "--name-only", "-z", "--list")
	if err != nil {
		return nil, err
	}
	var names []string
	for key := range strings.SplitSeq(out, "\x00") {
		rest, ok := strings.CutPrefix(key, "filter.")
		if i := strings.LastIndexByte(rest, '.'); ok && i > 0 && !slices.Contains(names, rest[:i]) {
			names = append(names, rest[:i])
		}
	}
	return names, nil
}
