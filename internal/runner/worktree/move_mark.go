package worktree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/scratch"
)

// moveMark is stored in the git directory of a working tree while Fleet updates the tree. If it is found later, the update was
// interrupted.
type moveMark struct {
	Branch string `json:"branch"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// maxMark limits the size of a mark, in bytes.
const maxMark = 64 << 10

func (c checkout) markPath() string { return filepath.Join(c.gitDir, "fleet-move") }

// mark records that the working tree is being updated.
func (c checkout) mark(m moveMark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return errors.Join(scratch.WriteFile(c.markPath(), b), ownerOf(c.dir).chown(c.markPath()))
}

func (c checkout) unmark() error {
	if err := os.Remove(c.markPath()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// rollBackMove undoes an interrupted update of the working tree, unless the branch has moved since. It changes only files that
// are missing, or whose content is that of the commit to which the branch was to move, or the beginning of it. The working
// tree must be locked.
func (g *Git) rollBackMove(ctx context.Context, repository string, c checkout, current fleet.Branch) error {
	var m moveMark
	f, err := os.Open(c.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxMark)).Decode(&m)
		_ = f.Close()
	}
	if err != nil || m.Branch != current.Name || m.From != current.Commit { // the branch has moved since
		return c.unmark()
	}
	u, err := g.newTreeUpdater(ctx, repository, fleet.Branch{Name: m.Branch, Commit: m.From}, m.To)
	if err != nil {
		return err
	}
	if err := c.copyIndex(); err != nil {
		return err
	}
	staged, err := u.list(ctx, c, c.nextIndexPath(), "diff-index", "--cached", "-z", "--name-only", m.From)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(u.changed, func(f changedFile) bool { return staged[f.path] }) {
		// git writes the index last, so it had written all files. If people have changed files since, the update fails.
		if err := u.update(ctx, c, m.To, m.From); err != nil {
			return c.busyError(m.Branch, "an interrupted update cannot be taken back: %s", firstLine(err.Error()))
		}
		return errors.Join(c.unmark(), c.copyIndex())
	}
	if err := u.restore(ctx, c, m); err != nil {
		return err
	}
	return c.unmark()
}

// list runs git in the working tree with the index, and returns the paths that git prints.
func (t *treeUpdater) list(ctx context.Context, c checkout, index string, args ...string) (map[string]bool, error) {
	paths := map[string]bool{}
	out := &lineWriter{nulTerminated: true, each: func(path string) { paths[path] = true }}
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_LITERAL_PATHSPECS=1"}
	err := t.git.pipe(ctx, nil, env, c.dir, nil, out, slices.Concat(t.options, args)...)
	return paths, err
}

// differingFiles returns those of the changed files that differ between the working tree and the commit.
func (t *treeUpdater) differingFiles(ctx context.Context, c checkout, commit string) (map[string]bool, error) {
	index := filepath.Join(c.gitDir, "fleet-move.commit")
	defer func() { _ = os.Remove(index) }()
	if _, err := t.list(ctx, c, index, "read-tree", commit); err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for part := range slices.Chunk(t.changed, maxArguments) {
		args := []string{"diff-files", "-z", "--name-only", "--ignore-submodules", "--"}
		for _, file := range part {
			args = append(args, file.path)
		}
		found, err := t.list(ctx, c, index, args...)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// restore brings the files that the interrupted update wrote or removed back to their old content, and removes the files that did not
// exist before. The index must have the old versions.
func (t *treeUpdater) restore(ctx context.Context, c checkout, m moveMark) error {
	differFromOld, err := t.differingFiles(ctx, c, m.From)
	if err != nil {
		return err
	}
	differFromNew, err := t.differingFiles(ctx, c, m.To)
	if err != nil {
		return err
	}
	var restored []string
	for _, file := range t.changed {
		path := filepath.Join(c.dir, file.path)
		_, err := os.Lstat(path)
		missing := err != nil
		inOld, inNew := strings.Trim(file.old, "0") != "", strings.Trim(file.new, "0") != ""
		switch {
		case inOld && !differFromOld[file.path], !inOld && missing: // it is as it was
		case missing, inNew && !differFromNew[file.path], inNew && t.beginsWithFile(ctx, c, path, file.new):
			if inOld {
				restored = append(restored, file.path)
			} else if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	if len(restored) == 0 {
		return nil
	}
	in := strings.NewReader(strings.Join(restored, "\x00") + "\x00")
	env := []string{"GIT_INDEX_FILE=" + c.nextIndexPath()}
	err = t.git.pipe(ctx, nil, env, c.dir, in, io.Discard, slices.Concat(t.options, []string{"checkout-index", "-q", "-f", "-u", "-z", "--stdin"})...)
	if err == nil {
		err = c.replaceIndex()
	}
	return errors.Join(err, c.copyIndex())
}

// maxArguments is the maximum number of paths in the arguments of git.
const maxArguments = 500

// beginsWithFile reports whether the object begins with the content of the file.
func (t *treeUpdater) beginsWithFile(ctx context.Context, c checkout, path, oid string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSnapshotFile {
		return false
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	p := &pageWriter{limit: len(content)}
	err = t.git.pipe(ctx, nil, nil, c.dir, nil, p, "cat-file", "blob", oid)
	return (err == nil || p.more) && bytes.Equal(p.text, content)
}
