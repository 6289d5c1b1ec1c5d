package worktree

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkout is a working tree of people in which a branch is checked out.
type checkout struct {
	dir    string // the working tree
	gitDir string // its git directory
}

// checkouts returns the working trees in which the branch is checked out, also those in which it is being rebased.
func (g *Git) checkouts(ctx context.Context, repository, branch string) ([]checkout, error) {
	out, err := g.run(ctx, repository, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	full := "refs/heads/" + branch
	var all []checkout
	for entry := range strings.SplitSeq(out, "\x00\x00") {
		lines := strings.Split(entry, "\x00")
		dir, ok := strings.CutPrefix(lines[0], "worktree ")
		if !ok || slices.Contains(lines, "bare") {
			continue
		}
		c := checkout{dir: dir, gitDir: gitDirOf(dir)}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // people have removed it
		}
		if slices.Contains(lines, "branch "+full) || c.unfinishedOperation(full) != "" {
			all = append(all, c)
		}
	}
	return all, nil
}

// unfinishedOperation returns the operation that people have begun in the working tree and not finished. If branch is set, it
// considers only a rebase of that branch.
func (c checkout) unfinishedOperation(branch string) string {
	for _, dir := range []string{"rebase-merge", "rebase-apply"} {
		name, err := os.ReadFile(filepath.Join(c.gitDir, dir, "head-name"))
		if err == nil && (branch == "" || strings.TrimSpace(string(name)) == branch) {
			return "rebase"
		}
	}
	if branch != "" {
		return ""
	}
	for file, what := range map[string]string{"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert"} {
		if _, err := os.Lstat(filepath.Join(c.gitDir, file)); err == nil {
			return what
		}
	}
	return ""
}

// firstFilteredPath returns the first path for which git would run one of the filters when it checks out the commit, or an
// empty string if there is none.
func (g *Git) firstFilteredPath(ctx context.Context, repository, commit string, filters, paths []string) (string, error) {
	if len(filters) == 0 || len(paths) == 0 {
		return "", nil
	}
	v, err := g.view(repository, false)
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
	each := &lineWriter{zero: true, each: func(f string) { fields = append(fields, f) }}
	if err := v.pipe(ctx, in, each, "check-attr", "--cached", "-z", "--stdin", "filter"); err != nil {
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

// changedFile is a file that differs between two commits.
type changedFile struct {
	path     string
	old, new string // objects; zeros if there is none
}

// changedFiles returns the files that differ between the commits.
func (v *view) changedFiles(ctx context.Context, from, to string) (all []changedFile, err error) {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", from, to); err != nil {
		return nil, err
	}
	fields := strings.Split(out.String(), "\x00")
	for i := 0; i+1 < len(fields); i += 2 { // ":100644 100644 OID OID M", the path
		if entry := strings.Fields(fields[i]); len(entry) == 5 {
			all = append(all, changedFile{fields[i+1], entry[2], entry[3]})
		}
	}
	return all, nil
}
