//go:build unix

package filetree

import (
	"path"
	"strings"
)

// Survey describes a directory.
type Survey struct {
	Files int64 `json:"files"` // number of entries that are not directories
	Bytes int64 `json:"bytes"` // space on the disk
	// Repositories is the number of directories that git may recognise as repositories or working trees.
	Repositories int64 `json:"repositories"`
	// Parts describes the entries of the directory and of its subdirectories, by their paths. It has at most maxParts entries
	// of the directory, and at most maxParts of each subdirectory among them.
	Parts map[string]Part `json:"parts"`
	// TooDeep is the number of Files whose paths are too long for a system call. TooDeepIn is the directory that contains the
	// first of these files, shortened to two levels.
	TooDeep   int64  `json:"deep,omitempty"`
	TooDeepIn string `json:"deep_in,omitempty"`
}

// Part describes a file, or a directory with everything in it.
type Part struct {
	Files        int64 `json:"files"`
	Repositories int64 `json:"repositories"`
}

// maxParts limits the number of entries of one directory in Survey.Parts.
const maxParts = 100

// maxPath is the length of the longest path that a system call accepts, in bytes, with the zero at its end.
const maxPath = 4096

// Examine returns the survey of the directory.
func Examine(dir string) (Survey, error) {
	s := Survey{Parts: map[string]Part{}}
	var parents []string // names on the path of the visited directory, at most two
	lengths := []int{0}  // lengths of the path of the visited directory and of its parents' paths, each with a slash
	add := func(within []string, p Part) {
		s.Files += p.Files
		s.Repositories += p.Repositories
		for n := range min(len(within), 2) {
			name := path.Join(within[:n+1]...)
			if sum, listed := s.Parts[name]; listed {
				s.Parts[name] = Part{sum.Files + p.Files, sum.Repositories + p.Repositories}
			}
		}
	}
	err := walk(dir, visitor{enter: func(d *directory, depth int, entries []entry) (subdirs []string, err error) {
		if 0 < depth && depth <= 2 {
			parents = append(parents[:depth-1], d.name)
		}
		if depth > 0 {
			lengths = append(lengths[:depth], lengths[depth-1]+len(d.name)+1)
		}
		if _, listed := s.Parts[path.Join(parents[:min(depth, 2)]...)]; depth == 0 || depth == 1 && listed {
			remaining := maxParts
			for _, wantDir := range []bool{true, false} { // directories first
				for _, e := range entries {
					if remaining > 0 && e.isDir() == wantDir {
						s.Parts[path.Join(path.Join(parents[:depth]...), e.name)] = Part{}
						remaining--
					}
				}
			}
		}
		has := map[string]bool{}
		for _, e := range entries {
			s.Bytes += e.stat.Blocks * blockSize
			switch name := strings.ToLower(e.name); name {
			case "head", "objects", "commondir", ".git":
				has[name] = true
			}
			if e.isDir() {
				subdirs = append(subdirs, e.name)
			} else {
				add(append(parents[:min(depth, 2):min(depth, 2)], e.name), Part{Files: 1})
				if lengths[depth]+len(e.name) >= maxPath {
					if s.TooDeep++; s.TooDeep == 1 {
						s.TooDeepIn = path.Join(parents...)
					}
				}
			}
		}
		if has[".git"] || has["head"] && (has["objects"] || has["commondir"]) {
			add(parents[:min(depth, 2)], Part{Repositories: 1})
		}
		return subdirs, nil
	}})
	return s, err
}

// blockSize is the unit of the size of a file on the disk, in bytes.
const blockSize = 512
