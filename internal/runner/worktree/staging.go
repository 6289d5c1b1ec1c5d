package worktree

import (
	"context"
	"fmt"
	"strings"

	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
)

// Limits for uncommitted files in a snapshot.
const (
	maxSnapshotFile = 50 << 20  // size of a file, in bytes
	maxSnapshot     = 200 << 20 // size of all files, in bytes
	maxNewFiles     = 10_000    // number of files that are not in the index
	maxRefused      = 200       // number of calls that git refuses, see addPaths
	maxListedParts  = 10        // number of left-out parts of a directory that get a line each
	maxLeftOut      = 100       // number of texts in staging.leftOut; one more text counts the rest
)

// staging collects the paths that a snapshot takes, and those that it leaves out.
type staging struct {
	sizes    map[string]int64 // by path, see gitfiles.Sizes
	paths    []string
	leftOut  []string // texts for people about files, at most maxLeftOut
	unlisted int      // number of further texts, which are only counted
	size     int64    // total size of the files in paths, in bytes
	refused  int      // number of calls that git has refused, see addPaths
}

// leaveOut records that the snapshot does not have the described files.
func (s *staging) leaveOut(what, why string) {
	if len(s.leftOut) < maxLeftOut {
		s.leftOut = append(s.leftOut, describeLeftOut(what, why))
	} else {
		s.unlisted++
	}
}

// sizes returns the sizes of files of the working tree by their paths, see gitfiles.Sizes.
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

// result returns lines for people about the files that were left out.
func (s *staging) result() []string {
	if s.unlisted == 0 {
		return s.leftOut
	}
	return append(s.leftOut, describeLeftOut(fmt.Sprintf("%d more files and directories", s.unlisted), fmt.Sprintf("only the first %d are named", maxLeftOut)))
}

// checkFile returns the size of the file, and why the snapshot must leave it out. why is empty if the snapshot can take the
// file. A path cannot lead out of the tree, because git lists no path below a symbolic link.
func (s *staging) checkFile(path string) (size int64, why string) {
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

// take takes the file if the limits of a snapshot allow it. Otherwise it leaves the file out.
func (s *staging) take(path string) {
	size, why := s.checkFile(path)
	if why == "" && s.size+size > maxSnapshot {
		why = fmt.Sprintf("the uncommitted files are larger than %d MiB", maxSnapshot>>20)
	}
	if why != "" {
		s.leaveOut(path, why)
		return
	}
	s.size += size
	s.paths = append(s.paths, path)
}
