package worktree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// newFile is a file that is not in the index.
type newFile struct {
	path    string
	size    int64
	leftOut bool
}

// addNew takes files that are not in the index. If they exceed a limit, it leaves out as little as possible; see fit.
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
	s.fit("", files, maxNewFiles, measure{value: func(*newFile) int64 { return 1 }, together: true})
	s.fit("", files, max(maxSnapshot-s.size, 0), measure{value: func(f *newFile) int64 { return f.size }})
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
	// together treats the files that are directly in a directory alike: all of them are left out, or none.
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

// dirPart is a part of a directory: a subdirectory, a file, or all files that are directly in the directory.
type dirPart struct {
	dir    string // path of the subdirectory, with a slash at the end; empty for files
	files  []*newFile
	weight int64
}

// parts returns the parts of a directory, the heaviest first. files are all files in it and below it, sorted by path.
func (m measure) parts(dir string, files []*newFile) (all []dirPart) {
	var own []*newFile
	for i := 0; i < len(files); {
		name, _, below := strings.Cut(files[i].path[len(dir):], "/")
		end := i + 1
		if !below {
			if own = append(own, files[i]); !m.together {
				all = append(all, dirPart{files: files[i:end]})
			}
		} else {
			sub := dir + name + "/"
			for end < len(files) && strings.HasPrefix(files[end].path, sub) {
				end++
			}
			all = append(all, dirPart{dir: sub, files: files[i:end]})
		}
		i = end
	}
	if m.together && len(own) > 0 {
		all = append(all, dirPart{files: own})
	}
	for i := range all {
		all[i].weight = m.sum(all[i].files)
	}
	slices.SortStableFunc(all, func(a, b dirPart) int { return cmp.Compare(b.weight, a.weight) })
	return all
}

// fit leaves out files of the directory until the remaining files are within the limit, and returns the sum of their measures. Every
// part of the directory gets the same share of the limit. Small parts leave the rest of their shares to the others, so a large part
// never displaces a small one. fit divides a subdirectory that is too large in the same way, so it leaves out files deep below, and
// keeps their siblings. If more than maxListedParts subdirectories are too large, it leaves them out as a whole.
func (s *staging) fit(dir string, files []*newFile, limit int64, m measure) int64 {
	total := m.sum(files)
	if total <= limit {
		return total
	}
	parts := m.parts(dir, files)
	share := fairShare(parts, limit)
	largeParts := parts[:slices.IndexFunc(append(parts, dirPart{weight: -1}), func(u dirPart) bool { return u.weight <= share })]
	dirs := 0
	for _, u := range largeParts {
		if u.dir != "" {
			dirs++
		}
	}
	var wholeDirs, fileParts []dirPart
	for _, u := range largeParts {
		switch {
		case total <= limit: // enough files are left out
		case u.dir != "" && dirs <= maxListedParts:
			total -= u.weight - s.fit(u.dir, u.files, share, m)
		case u.dir != "":
			total, wholeDirs = total-u.weight, append(wholeDirs, u)
		default:
			total, fileParts = total-u.weight, append(fileParts, u)
		}
	}
	s.leaveOutDirs(dir, wholeDirs)
	switch {
	case m.together && len(fileParts) == 1 && len(parts) == 1 && dir != "":
		s.leaveOutFiles(dir, fileParts)
	case m.together || len(fileParts) > maxListedParts:
		s.leaveOutFiles("files in "+dirLabel(dir), fileParts)
	default:
		for _, u := range fileParts {
			s.leaveOutFiles(u.files[0].path, []dirPart{u})
		}
	}
	return total
}

// leaveOutDirs leaves out subdirectories as a whole, and describes them in one line.
func (s *staging) leaveOutDirs(dir string, all []dirPart) {
	if len(all) == 1 {
		s.leaveOutFiles(all[0].dir, all)
		return
	}
	s.leaveOutFiles(fmt.Sprintf("%d directories in %s", len(all), dirLabel(dir)), all)
}

// leaveOutFiles leaves out the files of the parts, and describes them in one line.
func (s *staging) leaveOutFiles(what string, all []dirPart) {
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

// dirLabel returns the path of the directory for people.
func dirLabel(dir string) string {
	if dir == "" {
		return "the top directory"
	}
	return dir
}

// fairShare returns how much each part may have, so that all together are within the limit. The parts are sorted, the heaviest first.
func fairShare(parts []dirPart, limit int64) int64 {
	for i, u := range slices.Backward(parts) {
		if n := int64(i + 1); u.weight > limit/n {
			return limit / n
		}
		limit -= u.weight
	}
	return limit
}
