package worktree

import (
	"maps"
	"slices"
	"strings"
)

// listing collects the paths that ls-files prints. It keeps at most about maxOutput bytes of paths: if there are more, it only counts
// the files of the directories that have most of them.
type listing struct {
	paths       []string
	bytes       int            // memory of paths, see pathCost
	countedDirs map[string]int // number of files in directories whose files are only counted, by the keys that heaviest returns
}

// ownFilesSuffix ends the keys of files that are directly in a directory.
const ownFilesSuffix = "\x00"

// pathCost is the memory that a path takes besides its text, in bytes. A path is kept in several lists, so short paths would
// otherwise take many times as much memory as the limit.
const pathCost = 48

func (l *listing) add(path string) {
	if len(l.countedDirs) > 0 {
		dir := path[:strings.LastIndexByte(path, '/')+1]
		keys := []string{dir + ownFilesSuffix}
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

// shrink stops keeping the paths of directories, and only counts their files, until the paths take at most half of their
// limit.
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
			own, ok := strings.CutSuffix(key, ownFilesSuffix)
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

// heaviest returns the key of a directory with much of the files' total size, or of the files that are directly in a directory. It
// begins with the heaviest part of the top directory, and descends while one part has more than half of the size of its directory.
func heaviest(files []*newFile) string {
	m := measure{value: func(f *newFile) int64 { return f.size }, together: true}
	for dir := ""; ; {
		total := m.sum(files)
		u := m.parts(dir, files)[0]
		switch {
		case u.dir == "" && (dir == "" || 2*u.weight > total):
			return dir + ownFilesSuffix
		case dir != "" && 2*u.weight <= total:
			return dir
		case 2*u.weight <= total:
			return u.dir
		}
		dir, files = u.dir, u.files
	}
}

// leaveOutCounted leaves out the files that the listing has only counted, without their paths.
func (s *staging) leaveOutCounted(l *listing) {
	for _, key := range slices.Sorted(maps.Keys(l.countedDirs)) {
		what := key
		if dir, ok := strings.CutSuffix(key, ownFilesSuffix); ok {
			what = "files in " + dirLabel(dir)
		}
		s.leaveOut(what, plural(l.countedDirs[key], "file", "files")+": too much for uncommitted files")
	}
}
