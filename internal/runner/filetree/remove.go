//go:build unix

package filetree

import "golang.org/x/sys/unix"

// removeBatch is the number of entries that RemoveContents reads at a time.
const removeBatch = 4096

// RemoveContents removes everything in the directory, but not the directory itself. It fails if dir is a symbolic link.
func RemoveContents(dir string) error { return walk(dir, remover) }

// remover removes the entries of directories.
var remover = visitor{
	batch: removeBatch,
	enter: func(d *directory, _ int, entries []entry) (subdirs []string, err error) {
		for _, e := range entries {
			if e.isDir() {
				subdirs = append(subdirs, e.name)
				continue
			}
			if err := d.changeEntry("remove", e.name, func(fd int) error { return unix.Unlinkat(fd, e.name, 0) }); err != nil {
				return nil, err
			}
		}
		return subdirs, nil
	},
	leave: func(parent *directory, _ int, name string) error {
		return parent.changeEntry("remove", name, func(fd int) error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
	},
}
