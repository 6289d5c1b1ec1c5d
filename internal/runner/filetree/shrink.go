//go:build unix

package filetree

import (
	"errors"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CacheLimit limits the size of a directory with caches of programs.
type CacheLimit struct {
	Dir      string `json:"dir"`
	MaxBytes int64  `json:"most"`
	// WholeDirs are patterns of path.Match for directories that are used and removed as a whole, because programs expect them to be
	// complete. The paths are relative to Dir. Directories with an @ in their names, such as Go modules, are whole too.
	WholeDirs []string `json:"whole,omitempty"`
	Keep      []string `json:"keep,omitempty"` // like WholeDirs, for files that are never removed, because programs lock them
}

// ShrinkResult is the result of Shrink.
type ShrinkResult struct {
	Bytes        int64 `json:"bytes"`   // space on the disk afterwards
	RemovedBytes int64 `json:"removed"` // space that was freed
}

// Limits of Shrink. A file counts as at least minSize, so that the number of files is limited too. All times before maxAge ago
// count as equal.
const (
	minSize  = 4096
	maxAge   = 90 * 24 * time.Hour
	maxLevel = 5 // length of the paths that a pattern of CacheLimit can match
)

// neverRemoved stands for the time of the last use of an entry that must not be removed.
const neverRemoved = math.MaxInt64

// removedName is the name of a directory that is being removed.
const removedName = ".removed@fleet"

// Shrink removes the least recently used files and whole directories if the directory is larger than its limit. It removes so many
// that the size is at least a tenth below the limit, if files to keep allow that. Programs may use the directory at the same time.
func Shrink(l CacheLimit) (s ShrinkResult, err error) {
	sizes := map[int64]int64{} // sizes, by the time of the last use
	_, err = l.walk(math.MinInt64, func(_ *directory, _ entry, lastUse, size int64) {
		sizes[lastUse] += size
		s.Bytes += size
	})
	if err != nil || s.Bytes <= l.MaxBytes {
		return s, err
	}
	cutoff, remaining := int64(math.MinInt64), s.Bytes
	for _, lastUse := range slices.Sorted(maps.Keys(sizes)) {
		if lastUse == neverRemoved || remaining <= l.MaxBytes-l.MaxBytes/10 {
			break
		}
		cutoff, remaining = lastUse, remaining-sizes[lastUse]
	}
	removedDirBytes, err := l.walk(cutoff, func(d *directory, e entry, lastUse, size int64) {
		if lastUse <= cutoff && d.remove(e) == nil {
			s.RemovedBytes += size
		}
	})
	s.RemovedBytes += removedDirBytes
	s.Bytes -= s.RemovedBytes
	return s, err
}

// walk calls visit with each entry, the time of its last use in Unix minutes, and its size on the disk. It visits a whole directory
// as one entry. The time of any other directory, and of a file to keep, is neverRemoved. walk also removes empty directories
// that were not changed after the minute cutoff, except those directly in Dir. It returns the size of the removed directories.
func (l CacheLimit) walk(cutoff int64, visit func(d *directory, e entry, lastUse, size int64)) (removedBytes int64, err error) {
	var parents []string // names on the path of the visited directory, up to maxLevel
	now := time.Now()
	nowMinutes := now.Unix() / 60
	oldestMinutes := now.Add(-maxAge).Unix() / 60
	lastUseOf := func(e entry) int64 {
		t := int64(e.stat.Mtim.Sec) //nolint:unconvert // the type depends on the system
		if !e.isDir() {             // this walk reads directories, which changes their access times
			t = max(t, int64(e.stat.Atim.Sec)) //nolint:unconvert // see above
		}
		return min(max(t/60, oldestMinutes), nowMinutes)
	}
	err = walk(l.Dir, visitor{
		enter: func(d *directory, depth int, entries []entry) (subdirs []string, err error) {
			if 0 < depth && depth < maxLevel {
				parents = append(parents[:depth-1], d.name)
			}
			for _, e := range entries {
				name := ""
				if depth < maxLevel {
					name = path.Join(path.Join(parents[:depth]...), e.name)
				}
				switch {
				case !e.isDir() && matches(l.Keep, name):
					visit(d, e, neverRemoved, sizeOf(e))
				case !e.isDir():
					visit(d, e, lastUseOf(e), sizeOf(e))
				case strings.Contains(e.name, "@") || matches(l.WholeDirs, name):
					lastUse, size, err := d.usage(e, lastUseOf)
					if err != nil {
						return nil, err
					}
					visit(d, e, lastUse, size)
				default:
					visit(d, e, neverRemoved, sizeOf(e))
					subdirs = append(subdirs, e.name)
				}
			}
			return subdirs, nil
		},
		leave: func(parent *directory, depth int, name string) error {
			e := entry{name: name}
			fd := int(parent.Fd())
			if depth > 0 && unix.Fstatat(fd, name, &e.stat, unix.AT_SYMLINK_NOFOLLOW) == nil && lastUseOf(e) <= cutoff && unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) == nil {
				removedBytes += sizeOf(e)
			}
			return nil
		},
	})
	return removedBytes, err
}

// matches reports whether the name matches one of the patterns of path.Match.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// sizeOf returns the space of the entry on the disk, in bytes, or minSize if that is more.
func sizeOf(e entry) int64 { return max(e.stat.Blocks*blockSize, minSize) }

// usage returns the time when anything in the subdirectory e was last used, and the size of the subdirectory. The parameter
// lastUseOf returns the time of one entry.
func (d *directory) usage(e entry, lastUseOf func(entry) int64) (lastUse, size int64, err error) {
	lastUse, size = lastUseOf(e), sizeOf(e)
	subdir, err := open(int(d.Fd()), e.name)
	if errors.Is(err, unix.ENOENT) {
		return lastUse, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	err = subdir.walk(e.name, visitor{enter: func(_ *directory, _ int, entries []entry) (subdirs []string, err error) {
		for _, e := range entries {
			lastUse, size = max(lastUse, lastUseOf(e)), size+sizeOf(e)
			if e.isDir() {
				subdirs = append(subdirs, e.name)
			}
		}
		return subdirs, nil
	}})
	return lastUse, size, err
}

// remove removes a file, or a directory with everything in it. A directory gets another name first, so that no program finds a
// part of it.
func (d *directory) remove(e entry) error {
	if !e.isDir() {
		return d.changeEntry("remove", e.name, func(fd int) error { return unix.Unlinkat(fd, e.name, 0) })
	}
	name := e.name
	if d.changeEntry("rename", name, func(fd int) error { return unix.Renameat(fd, name, fd, removedName) }) == nil {
		name = removedName
	}
	subdir, err := open(int(d.Fd()), name)
	if err == nil {
		err = subdir.walk(name, remover)
	}
	if err != nil {
		return err
	}
	return d.changeEntry("remove", name, func(fd int) error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
}
