//go:build unix

package filetree

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// HomeFiles are the files that Fleet puts into the home directory of an agent. The agent can write there, and may have
// replaced any of them.
type HomeFiles struct {
	Dir     string            `json:"dir"`               // the home; Dirs and the keys of the maps are relative to it
	Dirs    []string          `json:"dirs,omitempty"`    // directories that are created if they do not exist
	Initial map[string][]byte `json:"initial,omitempty"` // contents of files that are created if they do not exist
	Managed map[string][]byte `json:"managed,omitempty"` // contents of files that are replaced
	Links   map[string]string `json:"links,omitempty"`   // targets of symbolic links that are created if they do not exist
	Caches  Caches            `json:"caches,omitzero"`
}

// Caches are symbolic links to directories that several agents share.
type Caches struct {
	Dir   string            `json:"dir"`   // contains the shared directories
	Links map[string]string `json:"links"` // targets relative to Dir, by the paths of the links in the home; "" removes the link
}

// updateLinks creates, changes and removes the links. If the agent has put anything else at the path of a link, the agent keeps that
// and does not share the cache.
func (c Caches) updateLinks(root *os.Root) {
	for name, target := range c.Links {
		current, err := root.Readlink(name)
		if target != "" {
			target = filepath.Join(c.Dir, target)
		}
		if err == nil {
			isCacheLink := strings.Contains(current, "/"+filepath.Base(c.Dir)+"/") // true even if Dir was elsewhere when the link was created
			if !isCacheLink || current == target || root.Remove(name) != nil {
				continue
			}
		}
		if target != "" && root.MkdirAll(filepath.Dir(name), 0o700) == nil {
			_ = root.Symlink(target, name)
		}
	}
}

// WriteHomeFiles creates and replaces the files. It follows no link out of the directory. If the agent has put something in the way of
// a directory, of a file or of a link, WriteHomeFiles returns that path in obstacle. It reports no failure of Caches.
func WriteHomeFiles(h HomeFiles) (obstacle string, err error) {
	root, err := os.OpenRoot(h.Dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	for _, dir := range slices.Sorted(slices.Values(h.neededDirs())) {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return dir, nil
		}
		if info, err := root.Stat(dir); err != nil || !info.IsDir() {
			return dir, nil //nolint:nilerr // for example, a link out of the directory
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Initial)) {
		if err := createFile(root, name, h.Initial[name]); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Managed)) {
		temp := name + ".new"
		if hasContent(root, name, h.Managed[name]) {
			continue // so that an agent can also start on a full disk
		}
		if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return temp, nil
		}
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			return name, nil
		}
		err := createFile(root, temp, h.Managed[name])
		if err == nil {
			err = root.Rename(temp, name)
		}
		if err != nil {
			return "", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Links)) {
		if err := root.Symlink(h.Links[name], name); err != nil && !errors.Is(err, fs.ErrExist) {
			return name, nil
		}
	}
	h.Caches.updateLinks(root)
	return "", nil
}

// neededDirs returns the directories that the files need.
func (h HomeFiles) neededDirs() []string {
	all := slices.Clone(h.Dirs)
	for _, names := range []iter.Seq[string]{maps.Keys(h.Initial), maps.Keys(h.Managed), maps.Keys(h.Links)} {
		for name := range names {
			if dir := filepath.Dir(name); dir != "." {
				all = append(all, dir)
			}
		}
	}
	return all
}

// createFile creates a file. It returns fs.ErrExist if the name exists.
func createFile(root *os.Root, name string, text []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// hasContent reports whether name is a regular file with the content text.
func hasContent(root *os.Root, name string, text []byte) bool {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(text)) {
		return false
	}
	b, err := io.ReadAll(io.LimitReader(f, info.Size()))
	return err == nil && bytes.Equal(b, text)
}
