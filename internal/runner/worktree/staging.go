package worktree

import (
	"cmp"
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
	maxPieces       = 10        // number of entries of a directory that are left out with a line for each
)

// staging collects the paths that a snapshot takes, and those that it leaves out.
type staging struct {
	sizes    map[string]int64 // see gitfiles.Sizes
	paths    []string
	leftOut  []string
	unlisted int   // files and directories that are left out, but not in leftOut
	size     int64 // of the files in paths, in bytes
	refused  int
}

// leaveOut records files that the snapshot does not have.
func (s *staging) leaveOut(what, why string) {
	if len(s.leftOut) < maxLeftOut {
		s.leftOut = append(s.leftOut, leftOut(what, why))
	} else {
		s.unlisted++
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

// result returns what was left out, as lines for people.
func (s *staging) result() []string {
	if s.unlisted == 0 {
		return s.leftOut
	}
	return append(s.leftOut, leftOut(fmt.Sprintf("%d more files and directories", s.unlisted), fmt.Sprintf("only the first %d are named", maxLeftOut)))
}

// checkFile returns the size of the file, and why the snapshot leaves it out; an empty reason if the snapshot takes it. A path
// cannot lead out of the tree, because git lists no path below a symbolic link.
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

// take takes the file if the limits of a snapshot allow it.
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

// newFile is a file that is not in the index.
type newFile struct {
	path    string
	size    int64
	leftOut bool // it is left out
}

// addNew takes files that are not in the index. If there are too many, it leaves out as little as possible; see fit.
func (s *staging) addNew(paths []string) {
	files := make([]*newFile, 0, len(paths))
	for _, path := range paths {
		size, why := s.checkFile(path)
		if why != "" {
			s.leaveOut(path, why)
			continue
		}
		files = append(files, &newFile{path: path, size: size})
	}
	slices.SortFunc(files, func(a, b *newFile) int { return strings.Compare(a.path, b.path) })
	s.fit("", files, maxNewFiles, measure{func(*newFile) int64 { return 1 }, true})
	s.fit("", files, max(maxSnapshot-s.size, 0), measure{func(f *newFile) int64 { return f.size }, false})
	for _, f := range files {
		if !f.leftOut {
			s.size += f.size
			s.paths = append(s.paths, f.path)
		}
	}
}

// measure is a property of files that has a limit.
type measure struct {
	value func(f *newFile) int64
	// together means that nothing distinguishes the files that are directly in a directory: all of them are left out, or none.
	together bool
}

func (m measure) sum(files []*newFile) (n int64) {
	for _, f := range files {
		if !f.leftOut {
			n += m.value(f)
		}
	}
	return n
}

// unit is a part of a directory: a subdirectory, a file, or all files that are directly in the directory.
type unit struct {
	dir    string // path of the subdirectory, with a slash at the end
	files  []*newFile
	weight int64
}

// units divides the files of a directory, which are sorted, into its parts, the heaviest first.
func (m measure) units(dir string, files []*newFile) (all []unit) {
	var own []*newFile
	for i := 0; i < len(files); {
		name, _, below := strings.Cut(files[i].path[len(dir):], "/")
		end := i + 1
		if !below {
			if own = append(own, files[i]); !m.together {
				all = append(all, unit{files: files[i:end]})
			}
		} else {
			sub := dir + name + "/"
			for end < len(files) && strings.HasPrefix(files[end].path, sub) {
				end++
			}
			all = append(all, unit{dir: sub, files: files[i:end]})
		}
		i = end
	}
	if m.together && len(own) > 0 {
		all = append(all, unit{files: own})
	}
	for i := range all {
		all[i].weight = m.sum(all[i].files)
	}
	slices.SortStableFunc(all, func(a, b unit) int { return cmp.Compare(b.weight, a.weight) })
	return all
}

// fit leaves out files of the directory until the others are within the limit, and returns the measure of the others. Every part
// of the directory gets the same share of the limit, and what small parts do not need of it goes to the others. So a large part
// never displaces a small one. fit divides a part that is too large in the same way: only the smallest directory that is
// too large is left out, and not what is beside it.
func (s *staging) fit(dir string, files []*newFile, limit int64, m measure) int64 {
	total := m.sum(files)
	if total <= limit {
		return total
	}
	units := m.units(dir, files)
	part := fairShare(units, limit)
	over := units[:slices.IndexFunc(append(units, unit{weight: -1}), func(u unit) bool { return u.weight <= part })]
	dirs := 0
	for _, u := range over {
		if u.dir != "" {
			dirs++
		}
	}
	var whole, single []unit
	for _, u := range over {
		switch {
		case total <= limit:
		case u.dir != "" && dirs <= maxPieces:
			total -= u.weight - s.fit(u.dir, u.files, part, m)
		case u.dir != "":
			total, whole = total-u.weight, append(whole, u)
		default:
			total, single = total-u.weight, append(single, u)
		}
	}
	s.leaveOutUnits(dir, whole)
	switch {
	case m.together && len(single) == 1 && len(units) == 1 && dir != "":
		s.leaveOutFiles(dir, single)
	case m.together || len(single) > maxPieces:
		s.leaveOutFiles("files in "+nameOf(dir), single)
	default:
		for _, u := range single {
			s.leaveOutFiles(u.files[0].path, []unit{u})
		}
	}
	return total
}

// leaveOutUnits leaves out subdirectories, of which there are too many to name each.
func (s *staging) leaveOutUnits(dir string, all []unit) {
	if len(all) == 1 {
		s.leaveOutFiles(all[0].dir, all)
		return
	}
	s.leaveOutFiles(fmt.Sprintf("%d directories in %s", len(all), nameOf(dir)), all)
}

// leaveOutFiles leaves out the files of the parts, and describes them in one line.
func (s *staging) leaveOutFiles(what string, all []unit) {
	n, size := 0, int64(0)
	for _, u := range all {
		for _, f := range u.files {
			if !f.leftOut {
				f.leftOut = true
				n, size = n+1, size+f.size
			}
		}
	}
	if n > 0 {
		s.leaveOut(what, fmt.Sprintf("%s with %d MiB: too much for uncommitted files", plural(n, "file", "files"), size>>20))
	}
}

func nameOf(dir string) string {
	if dir == "" {
		return "the top directory"
	}
	return dir
}

// fairShare returns how much each part may have, so that all are within the limit. The parts are sorted, the heaviest first.
func fairShare(units []unit, limit int64) int64 {
	for i, u := range slices.Backward(units) {
		if n := int64(i + 1); u.weight > limit/n {
			return limit / n
		}
		limit -= u.weight
	}
	return limit
}

// listing receives the paths that ls-files prints with -z. It keeps at most about maxOutput bytes of paths: if there are more, it
// only counts the files of the directories that have most of them.
type listing struct {
	rest        []byte // the beginning of a path
	paths       []string
	bytes       int            // of paths
	countedDirs map[string]int // number of files in directories whose files are only counted; see keyOf
}

// ownFilesKey is the end of the key of files that are directly in a directory.
const ownFilesKey = "\x00"

// maxPath limits the length of a path, in bytes.
const maxPath = 64 << 10

// pathCost is what a path costs besides its text, in bytes: each is kept in several lists, and short paths would otherwise make
// them many times larger than the limit.
const pathCost = 48

func (l *listing) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := slices.Index(rest, 0)
		if i < 0 {
			l.rest = append(l.rest, rest...)
			if len(l.rest) > maxPath {
				return 0, &Error{Message: "git lists a path that is too long"}
			}
			break
		}
		l.add(string(append(l.rest, rest[:i]...)))
		l.rest, rest = l.rest[:0], rest[i+1:]
	}
	return len(p), nil
}

func (l *listing) add(path string) {
	if len(l.countedDirs) > 0 {
		dir := path[:strings.LastIndexByte(path, '/')+1]
		keys := []string{dir + ownFilesKey}
		for i := range path {
			if path[i] == '/' {
				keys = append(keys, path[:i+1])
			}
		}
		for _, key := range keys {
			if _, ok := l.countedDirs[key]; ok {
				l.countedDirs[key]++
				return
			}
		}
	}
	l.paths = append(l.paths, path)
	if l.bytes += len(path) + pathCost; l.bytes > maxOutput {
		l.shrink()
	}
}

// shrink closes directories until the paths have half of their limit.
func (l *listing) shrink() {
	slices.Sort(l.paths)
	if l.countedDirs == nil {
		l.countedDirs = map[string]int{}
	}
	for l.bytes > maxOutput/2 {
		files := make([]*newFile, 0, len(l.paths))
		for _, path := range l.paths {
			files = append(files, &newFile{path: path, size: int64(len(path)) + pathCost})
		}
		key := heaviest(files)
		kept := l.paths[:0]
		for _, path := range l.paths {
			own, ok := strings.CutSuffix(key, ownFilesKey)
			if ok && path[:strings.LastIndexByte(path, '/')+1] == own || !ok && strings.HasPrefix(path, key) {
				l.countedDirs[key]++
				l.bytes -= len(path) + pathCost
				continue
			}
			kept = append(kept, path)
		}
		clear(l.paths[len(kept):])
		l.paths = kept
	}
}

// heaviest returns the key of the smallest directory that has most of the files, or of the files that are directly in it.
func heaviest(files []*newFile) string {
	m := measure{func(f *newFile) int64 { return f.size }, true}
	for dir := ""; ; {
		total := m.sum(files)
		u := m.units(dir, files)[0]
		switch {
		case u.dir == "" && (dir == "" || 2*u.weight > total):
			return dir + ownFilesKey
		case dir != "" && 2*u.weight <= total:
			return dir
		case 2*u.weight <= total:
			return u.dir
		}
		dir, files = u.dir, u.files
	}
}

// leaveOutCounted leaves out the files that the listing has only counted.
func (s *staging) leaveOutCounted(l *listing) {
	for _, key := range slices.Sorted(maps.Keys(l.countedDirs)) {
		what := key
		if dir, ok := strings.CutSuffix(key, ownFilesKey); ok {
			what = "files in " + nameOf(dir)
		}
		s.leaveOut(what, plural(l.countedDirs[key], "file", "files")+": too much for uncommitted files")
	}
}
