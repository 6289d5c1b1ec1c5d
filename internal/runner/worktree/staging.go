package worktree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
)

// Limits for uncommitted files in a snapshot.
const (
	maxSnapshotFile = 50 << 20  // size of a file, in bytes
	maxSnapshot     = 200 << 20 // size of all files, in bytes
	maxNewFiles     = 10_000    // number of files that are not in the index
	maxRefused      = 200       // calls of git that refuse a file
)

// staging collects the paths that a snapshot takes, and those that it leaves out.
type staging struct {
	sizes   map[string]int64 // see gitfiles.Sizes
	paths   []string
	left    []string
	size    int64 // of the files in paths, in bytes
	refused int
}

// leave records files that the snapshot does not have.
func (s *staging) leave(what, why string) {
	if len(s.left) < maxLeftOut {
		s.left = append(s.left, leftOut(what, why))
	}
}

// sizes returns the sizes of files of the working tree.
func (v *view) sizes(ctx context.Context, paths []string) (map[string]int64, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	f := gitfiles.Files{Dir: v.dir}
	for _, path := range paths {
		f.Paths = append(f.Paths, []byte(path))
	}
	all, err := sandbox.SizesOf(ctx, f)
	if err != nil && ctx.Err() == nil {
		err = &Error{Message: "cannot examine the files: " + err.Error()}
	}
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(paths))
	for i, path := range paths {
		sizes[path] = all[i]
	}
	return sizes, nil
}

// look returns the size of the file, and why the snapshot leaves it out; an empty reason if the snapshot takes it. A path
// cannot lead out of the tree, because git lists no path below a symbolic link.
func (s *staging) look(path string) (size int64, why string) {
	if strings.HasSuffix(path, "/") { // not a submodule
		return 0, "a repository of its own"
	}
	switch size := s.sizes[path]; {
	case size > maxSnapshotFile:
		return 0, fmt.Sprintf("larger than %d MiB", maxSnapshotFile>>20)
	case size >= 0:
		return size, ""
	case size == gitfiles.NamedPipe:
		return 0, "a named pipe"
	}
	return 0, "a special file"
}

// take takes the file if the limits of a snapshot allow it.
func (s *staging) take(path string) {
	size, why := s.look(path)
	if why == "" && s.size+size > maxSnapshot {
		why = fmt.Sprintf("the uncommitted files are larger than %d MiB", maxSnapshot>>20)
	}
	if why != "" {
		s.leave(path, why)
		return
	}
	s.size += size
	s.paths = append(s.paths, path)
}

// addNew takes files that are not in the index. If there are too many, it leaves out whole directories, the largest
// first, and describes each in one line.
func (s *staging) addNew(paths []string) {
	type group struct {
		paths []string
		size  int64
	}
	groups := map[string]*group{}
	files, size := 0, int64(0)
	for _, path := range paths {
		n, why := s.look(path)
		if why != "" {
			s.leave(path, why)
			continue
		}
		name, _, below := strings.Cut(path, "/")
		if !below {
			name = ""
		}
		if groups[name] == nil {
			groups[name] = &group{}
		}
		g := groups[name]
		g.paths, g.size = append(g.paths, path), g.size+n
		files, size = files+1, size+n
	}
	names := slices.Sorted(maps.Keys(groups))
	slices.SortStableFunc(names, func(a, b string) int {
		return weigh(len(groups[b].paths), groups[b].size) - weigh(len(groups[a].paths), groups[a].size)
	})
	for _, name := range names {
		g := groups[name]
		if files <= maxNewFiles && s.size+size <= maxSnapshot {
			s.paths = append(s.paths, g.paths...)
			continue
		}
		what := name + "/"
		if name == "" {
			what = "files in the top directory"
		}
		s.leave(what, fmt.Sprintf("%d files with %d MiB: too much for uncommitted files", len(g.paths), g.size>>20))
		files, size = files-len(g.paths), size-g.size
	}
	s.size += size
}

// weigh returns which share of the limits files use, in millionths of both limits together. A coarser unit would make the
// groups of many small directories weigh nothing.
func weigh(files int, size int64) int {
	return 1_000_000*files/maxNewFiles + int(1_000_000*size/maxSnapshot)
}
