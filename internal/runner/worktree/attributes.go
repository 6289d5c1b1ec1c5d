package worktree

import (
	"context"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxAttributeDirs limits the number of directories whose attributes are read.
const maxAttributeDirs = 5000

// maxAttributesFile limits how much of a .gitattributes file is read, in bytes.
const maxAttributesFile = 1 << 20

// copyAttributes copies .gitattributes files of the commit onto into the draft's working tree, where git merge-tree reads them. It copies
// the files in the directories where onto or head has changed files since base, and in the parents of these directories.
func (d *draft) copyAttributes(ctx context.Context, onto, base, head string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dirs := map[string]bool{".": true}
	for _, c := range []string{onto, head} {
		limitedCtx, cancel := context.WithCancel(ctx) // a few small trees of an agent can have millions of paths
		out := &lineWriter{nulTerminated: true, each: func(changed string) {
			d.changesAttributes = d.changesAttributes || path.Base(changed) == ".gitattributes"
			for dir := path.Dir(changed); !dirs[dir] && len(dirs) < maxAttributeDirs; dir = path.Dir(dir) {
				dirs[dir] = true
			}
			if len(dirs) >= maxAttributeDirs {
				cancel()
			}
		}}
		err := d.pipe(limitedCtx, nil, out, "diff-tree", "-r", "-z", "--name-only", "--no-renames", base, c)
		cancel()
		if err != nil && (len(dirs) < maxAttributeDirs || ctx.Err() != nil) {
			return err
		}
	}
	var names, files []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if name := path.Join(dir, ".gitattributes"); !d.visited[dir] && filepath.IsLocal(dir) && !strings.Contains(dir, "\n") {
			names, files = append(names, onto+":"+name), append(files, filepath.Join(d.dir, name))
		}
		d.visited[dir] = true
	}
	return d.eachBlob(ctx, names, func(text io.Reader) error {
		file := files[0]
		files = files[1:]
		if text == nil {
			return nil
		}
		b, err := io.ReadAll(io.LimitReader(text, maxAttributesFile))
		if err != nil {
			return err
		}
		return writeFile(file, string(b))
	})
}

// refreshAttributes repeats copyAttributes for onto, the new top of the branch, if attributes have changed since base. Nothing else may use
// the draft at the same time.
func (d *draft) refreshAttributes(ctx context.Context, onto, base, head string) error {
	if !d.changesAttributes {
		return nil
	}
	clear(d.visited)
	if err := RemoveAll(d.dir); err != nil {
		return err
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return err
	}
	return d.copyAttributes(ctx, onto, base, head)
}
