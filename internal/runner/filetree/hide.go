//go:build unix

package filetree

import (
	"strings"

	"golang.org/x/sys/unix"
)

// hiddenSuffix is the suffix of files that HideRepositories has renamed.
const hiddenSuffix = ".of-kept-agent"

// HideRepositories makes git recognise no repository in the directory or below it, so that git runs no program that the configuration of
// such a repository names. It renames the files HEAD, without which a directory is not a repository. ShowRepositories reverts that.
func HideRepositories(dir string) error {
	return renameHeads(dir, func(name string, taken map[string]bool) string {
		if strings.EqualFold(name, "HEAD") {
			name += hiddenSuffix
			for taken[name] {
				name += hiddenSuffix
			}
		}
		return name
	})
}

// ShowRepositories reverts HideRepositories.
func ShowRepositories(dir string) error {
	return renameHeads(dir, func(name string, taken map[string]bool) string {
		head := name[:len("HEAD")]
		// Of several hidden names, the longest was hidden last.
		if strings.ReplaceAll(name, hiddenSuffix, "") != head || taken[head] || taken[name+hiddenSuffix] {
			return name
		}
		return head
	})
}

// renameHeads renames files in the directory and below it. It calls newName for each file whose name begins with HEAD, in any case.
// newName returns the new name of the file, or the same name. taken contains the names in the file's directory.
func renameHeads(dir string, newName func(name string, taken map[string]bool) string) error {
	return walk(dir, visitor{enter: func(d *directory, _ int, entries []entry) (subdirs []string, err error) {
		var taken map[string]bool
		for _, e := range entries {
			if e.isDir() {
				subdirs = append(subdirs, e.name)
			}
			if len(e.name) < len("HEAD") || !strings.EqualFold(e.name[:len("HEAD")], "HEAD") || e.isDir() {
				continue
			}
			if taken == nil {
				taken = map[string]bool{}
				for _, sibling := range entries {
					taken[sibling.name] = true
				}
			}
			to := newName(e.name, taken)
			if to == e.name {
				continue
			}
			if err := d.changeEntry("rename", e.name, func(fd int) error { return unix.Renameat(fd, e.name, fd, to) }); err != nil {
				return nil, err
			}
			delete(taken, e.name)
			taken[to] = true
		}
		return subdirs, nil
	}})
}
